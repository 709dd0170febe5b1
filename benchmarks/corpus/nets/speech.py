"""Speech networks as transformers builds them, without trained weights."""

from __future__ import annotations

import torch
import transformers
from torch import Tensor, nn

from benchmarks.corpus.nets.language import cache, flat
from benchmarks.corpus.nets.parts import Call, Net, picture


def hifigan() -> Net:
    """HiFi-GAN (Kong et al., 2020) with the widths of its version 3, halved: 32 frames to 8,192 samples."""
    config = transformers.SpeechT5HifiGanConfig(
        upsample_initial_channel=128, upsample_rates=[8, 8, 4], upsample_kernel_sizes=[16, 16, 8],
        resblock_kernel_sizes=[3, 5, 7], resblock_dilation_sizes=[[1, 2], [2, 6], [3, 12]],
    )  # fmt: skip  # one table
    return transformers.SpeechT5HifiGan(config), picture(1, 32, 80)


def wav2vec2() -> Net:
    """wav2vec 2.0 (Baevski et al., 2020), smaller: one second at 16 kHz to letters."""
    config = transformers.Wav2Vec2Config(
        hidden_size=192, num_hidden_layers=4, num_attention_heads=4, intermediate_size=768,
        conv_dim=[128] * 7, num_conv_pos_embeddings=64, num_conv_pos_embedding_groups=8, attn_implementation="eager",
    )  # fmt: skip  # one table

    def call(inner: nn.Module, x: Tensor) -> Tensor:
        return inner(x).logits

    return Call(transformers.Wav2Vec2ForCTC(config), call), picture(1, 16_000)


def _whisper(vocabulary: int) -> transformers.WhisperModel:
    """The sizes of Whisper tiny (Radford et al., 2022)."""
    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536, vocab_size=vocabulary, attn_implementation="eager",
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip  # one table
    return transformers.WhisperForConditionalGeneration(config)


def whisper_encoder(frames: int) -> Net:
    """The encoder of Whisper tiny over 30 seconds: 3,000 frames of 80 bands."""

    def call(inner: nn.Module, x: Tensor) -> Tensor:
        return inner(x).last_hidden_state

    return Call(_whisper(64).model.encoder, call), picture(1, 80, frames)


def whisper_decoder_step(past: int, vocabulary: int) -> Net:
    """One word of Whisper tiny's decoder, with its keys and values of earlier words and of the sound passed in."""

    def call(inner: nn.Module, word: Tensor, *known: Tensor) -> tuple[Tensor, ...]:
        half = len(known) // 2
        both = transformers.EncoderDecoderCache(cache(known[:half]), cache(known[half:]))
        for layer in range(half // 2):
            both.is_updated[layer] = True
        place = torch.full((1, 1), past, dtype=torch.int64)
        found = inner.model.decoder(
            input_ids=word,
            past_key_values=both,
            encoder_hidden_states=known[half].new_zeros(1, known[half].shape[2], 384),
            position_ids=place,
            use_cache=True,
        )
        return inner.proj_out(found.last_hidden_state), *flat(both.self_attention_cache)

    own = [torch.rand(1, 6, past, 64) for _ in range(8)]
    sound = [torch.rand(1, 6, 1500, 64) for _ in range(8)]
    word = torch.zeros((1, 1), dtype=torch.int64)
    return Call(_whisper(vocabulary), call), (word, *own, *sound)
