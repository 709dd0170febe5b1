"""Language networks as transformers builds them, without trained weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from benchmarks.corpus.nets.parts import Call, Net

SIMPLE = "eager"  # attention written as products and softmax, which is what exporters of ONNX meet in any case


def words(*shape: int) -> Tensor:
    """Numbers of words."""
    return torch.randint(3, 1000, shape)


def _made(config: str, model: str, arguments: dict[str, Any]) -> nn.Module:
    """The class of transformers that is named, built after its configuration; those that know one attention only keep it."""
    settings = getattr(transformers, config)(**arguments)
    try:
        return getattr(transformers, model)._from_config(settings, attn_implementation=SIMPLE)
    except ValueError:
        return getattr(transformers, model)._from_config(settings)


def encoder(config: str, model: str, length: int, arguments: dict[str, Any] | None = None) -> Net:
    """Whole sentences, with a mask of what is padding; answers the first output of the model."""

    def call(inner: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
        return inner(input_ids=ids, attention_mask=mask)[0]

    mask = torch.ones((1, length), dtype=torch.int64)
    return Call(_made(config, model, arguments or {}), call), (words(1, length), mask)


def prefill(config: str, model: str, length: int, arguments: dict[str, Any]) -> Net:
    """All words of a text at once, without a cache: the logits of every place."""

    def call(inner: nn.Module, ids: Tensor) -> Tensor:
        return inner(input_ids=ids, use_cache=False).logits

    return Call(_made(config, model, arguments), call), (words(1, length),)


def cache(known: Sequence[Tensor]) -> transformers.DynamicCache:
    """Keys and values, in turns by layer, as a cache."""
    made = transformers.DynamicCache()
    for layer, (key, value) in enumerate(zip(known[::2], known[1::2], strict=True)):
        made.update(key, value, layer)
    return made


def flat(made: transformers.DynamicCache) -> list[Tensor]:
    """The keys and values of a cache, in turns by layer."""
    return [tensor for layer in made.layers for tensor in (layer.keys, layer.values)]


def step(config: str, model: str, past: int, arguments: dict[str, Any]) -> Net:
    """One word after ``past`` others: keys and values of all layers passed in and out."""
    made = _made(config, model, arguments)
    settings = made.config
    heads = getattr(settings, "num_key_value_heads", settings.num_attention_heads)
    width = settings.hidden_size // settings.num_attention_heads

    def call(inner: nn.Module, ids: Tensor, *known: Tensor) -> tuple[Tensor, ...]:
        both = cache(known)
        place = torch.full((1, 1), past, dtype=torch.int64)
        found = inner(input_ids=ids, past_key_values=both, position_ids=place, use_cache=True)
        return found.logits, *flat(both)

    known = [torch.rand(1, heads, past, width) for _ in range(2 * settings.num_hidden_layers)]
    return Call(made, call), (words(1, 1), *known)


def t5_encoder(length: int, arguments: dict[str, Any]) -> Net:
    """The encoder of T5 small (Raffel et al., 2020)."""
    return encoder("T5Config", "T5EncoderModel", length, arguments)


def t5_decoder_step(length: int, past: int, arguments: dict[str, Any]) -> Net:
    """One word of T5's decoder: its own keys and values and those of the sentence of ``length`` words passed in."""
    made = _made("T5Config", "T5ForConditionalGeneration", arguments)

    def call(inner: nn.Module, ids: Tensor, *known: Tensor) -> tuple[Tensor, ...]:
        half = len(known) // 2
        both = transformers.EncoderDecoderCache(cache(known[:half]), cache(known[half:]))
        for layer in range(half // 2):
            both.is_updated[layer] = True
        states = known[half].new_zeros(1, length, inner.config.d_model)
        found = inner.decoder(input_ids=ids, past_key_values=both, encoder_hidden_states=states, use_cache=True)
        return inner.lm_head(found.last_hidden_state), *flat(both.self_attention_cache)

    layers, heads, width = made.config.num_layers, made.config.num_heads, made.config.d_kv
    own = [torch.rand(1, heads, past, width) for _ in range(2 * layers)]
    sentence = [torch.rand(1, heads, length, width) for _ in range(2 * layers)]
    return Call(made, call), (words(1, 1), *own, *sentence)


def bart(length: int, answer: int, arguments: dict[str, Any]) -> Net:
    """BART (Lewis et al., 2020), smaller: a sentence and the answer so far to the logits of the answer."""

    def call(inner: nn.Module, ids: Tensor, so_far: Tensor) -> Tensor:
        return inner(input_ids=ids, decoder_input_ids=so_far, use_cache=False).logits

    return Call(_made("BartConfig", "BartForConditionalGeneration", arguments), call), (
        words(1, length),
        words(1, answer),
    )
