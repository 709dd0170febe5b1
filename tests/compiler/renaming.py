"""Graphs under other names, and programs without theirs: a name must never change what is compiled."""

from dataclasses import replace

import numpy as np

from compiler.ir.builder import rename_node
from compiler.isa.binary import SECTIONS, Binary
from compiler.isa.encoding import Writer

SUFFIXES = (
    "~strip1",
    "~group0",
    "~band1",
    "~sum",
    "~part",
    "~parts",
    "~flat",
    "~base",
    "~old",
    "~next",
    ":0",
    ":1",
    "~0",
    "'2",
)


def renamed(graph, seed, source=True):
    """The graph with every value and every operation under a name that ``seed`` draws; and the names of its values.

    Many are such as passes give to values of their own. ``source``: those of source operations too.
    """
    rng = np.random.default_rng(seed)
    values = _drawn(rng, list(graph.types))
    nodes = _drawn(rng, [node.name for node in graph.nodes])
    sources = _drawn(rng, sorted({s for node in graph.nodes for s in node.source})) if source else {}
    made = tuple(
        replace(
            rename_node(node, values),
            name=nodes[node.name],
            source=tuple(sources.get(s, s) for s in node.source),
            part=node.part and replace(node.part, whole=values[node.part.whole]),
        )
        for node in graph.nodes
    )
    changed = replace(
        graph,
        inputs=tuple(values[v] for v in graph.inputs),
        outputs=tuple(values[v] for v in graph.outputs),
        types={values[v]: kind for v, kind in graph.types.items()},
        constants={values[v]: array for v, array in graph.constants.items()},
        states=tuple(replace(s, input=values[s.input], update=values[s.update]) for s in graph.states),
        lengths={values[v]: (axis, values[by]) for v, (axis, by) in graph.lengths.items()},
        nodes=made,
    )
    return changed, values


def _drawn(rng, names):
    """New names, all different: numbers, other names of the graph, and those with what passes append behind them."""
    bases = [*names, *(f"n{i}" for i in range(len(names)))]
    taken, found = set(), {}
    for name in names:
        new = str(rng.choice(bases)) + "".join(rng.choice(SUFFIXES, int(rng.integers(0, 3))))
        while new in taken:
            new += str(rng.choice(SUFFIXES))
        taken.add(new)
        found[name] = new
    return found


def nameless(binary):
    """By section the bytes of a program without what holds names, and without the notes."""
    plain = replace(
        binary,
        notes="",
        reason="",
        sources=("",) * len(binary.sources),
        ports=tuple(replace(port, name="", length="") for port in binary.ports),
        states=tuple(replace(state, name="") for state in binary.states),
    )
    found = {}
    for name, write, _ in SECTIONS:
        section = Writer()
        write(section, plain)
        found[name] = section.data
    return found


def read(program):
    """The binary of a compiled program."""
    return Binary.from_bytes(program.to_bytes())
