"""Inputs as the models of the benchmarks meet them: sentences, rendered text, sound, files; seeded, the same everywhere.

Pictures are drawn by Pillow with the font that it brings; they serve measuring only and make no bytes of a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from compiler.ir.graph import Graph

Feed = dict[str, np.ndarray]
ROOT = Path(__file__).resolve().parent.parent

# The commonest English words by their numbers in the vocabulary of uncased BERT, which the sentence models share: word n of
# this text is number 1996 + n.
VOCABULARY = (
    "the of and in to was he is as for on with that it his by at from her ##s she you had an were but be this are not my "
    "they one which or have him me first all also their has up who out been when after there into new two its ##a time "
    "would no what about said we over then other so more ##e can if like back them only some could ##i where just ##ing "
    "during before ##n do ##o made school through than now years most world may between down well three ##d year while "
    "will ##ed ##r ##y later ##t city under around did such being used state people part know against your many second "
    "university both national ##er these don known off way until re how even get head"
)
WORDS = VOCABULARY.split()
SENTENCES = (
    "the school in the city was made for all the people that were there",
    "he had been in the world for many years before",
    "she could not get back to the way it was",
    "what do you know about the first state university",
    "they would like to have more time between now and then",
    "three years later it was the second one of its part",
    "there is no one who would know how to get there first",
    "during the year most of them were out of the city",
    "the national university is known for its people",
    "we will be back after the school year",
    "some of these may only be used by one part of the state",
    "can you get me into the new school",
    "when he was down they were all against him",
    "both of the new people did well at the university",
    "until then she had only been around two other people",
    "even now it is not the way that i would have made it",
    # from here on: what calibrates
    "most of the people in the state have never known war",
    "it was over before the second day",
    "you can only use it when they are not there",
    "her first year at the school was like no other",
    "many of the other parts were made after three years",
    "all that we know is that he would come back",
    "the two of them had a way with people",
    "what he made of it you may well know",
    "there were more people in the world than ever",
    "do not get off until the city is around you",
    "national part of the time between then and now",
    "if she can get in so can all of us",
    "being the first to know is not like being the second",
    "they use it again and again through the year",
    "his school had been known as the state university",
    "some would have it that way and some would not",
)
LINES = (
    "Invoice 2024-0815",
    "Total: 1,284.50 EUR",
    "Meeting at 10:30",
    "www.example.org",
    "No smoking",
    "EXIT",
    "Room 4711",
    "Temperature 23 C",
    "Serial AX-99-17",
    "Please wait here",
    "Gate B12 boarding",
    "Open 9 - 18",
    "Fragile",
    "PUSH",
    "Level 2",
    "The quick brown fox",
    # from here on: what calibrates
    "Receipt 99-1203",
    "Sum: 37.80 USD",
    "Lunch from 12:15",
    "info@example.net",
    "Keep left",
    "ENTRANCE",
    "Floor 17",
    "Humidity 61 %",
    "Model KQ-20-553",
    "Ring the bell",
    "Track 6 departs",
    "Closed on Sunday",
    "This side up",
    "PULL",
    "Section F",
    "A lazy dog sleeps",
)


def representative(case: str, graph: Graph, count: int = 16, first: int = 0) -> list[Feed]:
    """``count`` feeds of a case of ``tests.models`` from number ``first`` on."""
    make = _MAKERS.get(case.split("-", maxsplit=1)[0], _noise)
    return make(graph, range(first, first + count))


def _of_half(texts: Sequence[str], number: int, step: int) -> str:
    """Numbers below 16 take the first half of the texts, the next 16 the other: what calibrates is not measured with."""
    half = len(texts) // 2
    return texts[number // half % 2 * half + (number + step) % half]


def _noise(graph: Graph, numbers: Sequence[int]) -> list[Feed]:
    """Pictures for networks with made-up weights: smooth noise of unit size."""
    feeds = []
    for n in numbers:
        rng = np.random.default_rng([1, n])
        feed = {}
        for name in graph.inputs:
            x = rng.standard_normal(graph.types[name].shape)
            for axis in (2, 3):
                x = (x + np.roll(x, 1, axis) + np.roll(x, 2, axis)) / np.sqrt(3)
            feed[name] = x.astype(np.float32)
        feeds.append(feed)
    return feeds


def _sentences(graph: Graph, numbers: Sequence[int]) -> list[Feed]:
    feeds = []
    for n in numbers:
        words = [w for k in range(1 + n % 2) for w in _of_half(SENTENCES, n, 6 * n * k + 3 * k).split()]
        feeds.append({name: _tokens(name, words, graph.types[name].shape[1], graph) for name in graph.inputs})
    return feeds


def _tokens(name: str, words: list[str], size: int, graph: Graph) -> np.ndarray:
    numbers = [1996 + WORDS.index(w) for w in words if w in WORDS]
    ids = [101, *numbers[: size - 2], 102]
    row = np.zeros(size)
    if "mask" in name:
        row[: len(ids)] = 1
    elif "type" not in name:
        row[: len(ids)] = ids
    return row[None].astype(graph.types[name].dtype.numpy)


def _text(
    graph: Graph, numbers: Sequence[int], lines: int, mean: Sequence[float], deviation: Sequence[float]
) -> list[Feed]:
    """Dark text on a light ground of slightly uneven brightness, normalised as the model's own pipeline does."""
    from PIL import Image, ImageDraw, ImageFont

    name = graph.inputs[0]
    _, _, height, width = graph.types[name].shape
    feeds = []
    for n in numbers:
        rng = np.random.default_rng([2, n])
        ground, ink = int(rng.integers(170, 256)), int(rng.integers(0, 90))
        picture = Image.new("L", (width, height), ground)
        draw = ImageDraw.Draw(picture)
        for k in range(lines):
            size = int(height * 0.6) if lines == 1 else int(rng.integers(16, 34))
            top = int(height * 0.15) if lines == 1 else 10 + k * height // lines
            left = 4 if lines == 1 else int(rng.integers(10, width // 3))
            draw.text((left, top), _of_half(LINES, n, 5 * k), fill=ink, font=ImageFont.load_default(size))
        x = np.asarray(picture, np.float64)[None] + rng.normal(0, 3, (3, height, width))
        x = (np.clip(x, 0, 255) / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(deviation, (3, 1, 1))
        feeds.append({name: x[None].astype(np.float32)})
    return feeds


def _line(graph: Graph, numbers: Sequence[int]) -> list[Feed]:
    return _text(graph, numbers, 1, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def _page(graph: Graph, numbers: Sequence[int]) -> list[Feed]:
    return _text(graph, numbers, 8, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def _files(graph: Graph, numbers: Sequence[int]) -> list[Feed]:
    """Beginnings and ends of the project's own files, with 256 where a file is shorter."""
    paths = sorted(
        p for folder in ("compiler", "docs", "samples", "static") for p in (ROOT / folder).rglob("*.*") if p.is_file()
    )
    name = graph.inputs[0]
    size = graph.types[name].shape[1]
    feeds = []
    for n in numbers:
        data = np.frombuffer(paths[37 * n % len(paths)].read_bytes(), np.uint8)
        row = np.full(size, 256)
        half = size // 2
        head, tail = data[:half], data[-half:]
        row[: len(head)] = head
        row[size - len(tail) :] = tail
        feeds.append({name: row[None].astype(graph.types[name].dtype.numpy)})
    return feeds


def _sound(graph: Graph, numbers: Sequence[int]) -> list[Feed]:
    """Vowel-like tones with pauses at 16 kHz; the state is what the model itself made of the pieces before."""
    from compiler.ir.interpreter import run

    size = graph.types["input"].shape[1]
    state = np.zeros(graph.types["state"].shape, np.float32)
    feeds = []
    for n in range(max(numbers) + 1):
        rng = np.random.default_rng([3, n])
        t = (np.arange(size) + n * size) / 16_000
        pitch = 110 + 30 * np.sin(2 * np.pi * 0.7 * t)
        tone = sum(np.exp(-(((k * 120 - 600) / 500) ** 2)) * np.sin(2 * np.pi * k * pitch * t) for k in range(1, 25))
        loud = 0.15 if (n // 4) % 2 == 0 else 0.0
        x = (loud * tone + 0.003 * rng.standard_normal(size)).astype(np.float32)[None]
        feeds.append({"input": x, "state": state})
        state = run(graph, feeds[-1])["stateN"]
    return [feeds[n] for n in numbers]


_MAKERS: dict[str, Callable[[Graph, Sequence[int]], list[Feed]]] = {
    "minilm": _sentences,
    "cls": _line,
    "rec": _line,
    "det": _page,
    "magika": _files,
    "silero": _sound,
}
