"""Recurrent networks, state spaces and a mixture of experts, after their published descriptions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.corpus.nets.parts import First, Net, conv, picture


def lstm_language(length: int) -> Net:
    """A language model of two LSTM layers with 256 cells and 4,096 words."""
    layers = [nn.Embedding(4096, 256), First(nn.LSTM(256, 256, 2, batch_first=True)), nn.Linear(256, 4096)]
    return nn.Sequential(*layers), (torch.randint(0, 4096, (1, length)),)


class _Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(16, 64, 2, batch_first=True, bidirectional=True), nn.Linear(128, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.gru(x)[0].mean(1))


def gru_classifier(length: int) -> Net:
    """Activities out of 16 sensors: two GRU layers in both directions, their mean, six classes."""
    return _Classifier(), picture(1, length, 16)


class _Columns(nn.Module):
    """[batch, channels, 1, width] to [width, batch, channels]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze(2).permute(2, 0, 1)


def crnn(width: int) -> Net:
    """CRNN (Shi et al., 2016): seven convolutions, two LSTM layers in both directions; 37 characters."""
    tall = [nn.MaxPool2d((2, 2), (2, 1), (0, 1))]
    body: list[nn.Module] = [
        conv(1, 64),
        nn.MaxPool2d(2),
        conv(64, 128),
        nn.MaxPool2d(2),
        conv(128, 256),
        conv(256, 256),
    ]
    body += [*tall, conv(256, 512), conv(512, 512), *tall, nn.Conv2d(512, 512, 2), nn.ReLU(), _Columns()]
    rows = [First(nn.LSTM(512, 256, bidirectional=True)), nn.Linear(512, 256)]
    rows += [First(nn.LSTM(256, 256, bidirectional=True)), nn.Linear(512, 37)]
    return nn.Sequential(*body, *rows), picture(1, 1, 32, width)


class _RwkvLayer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mix = nn.Parameter(torch.rand(5, width))
        self.decay, self.bonus = nn.Parameter(torch.rand(width)), nn.Parameter(torch.rand(width))
        self.time = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(4))
        self.channel = nn.ModuleList(
            [nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False), nn.Linear(width, width)]
        )

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """``state``: [5, width]: last inputs of both halves, numerator, denominator and largest exponent of the mean."""
        last, last_channel, above, below, most = state
        y = self.norms[0](x)
        r, k, v = (
            layer(y * self.mix[n] + last * (1 - self.mix[n]))
            for n, layer in enumerate((self.time[0], self.time[1], self.time[2]))
        )
        top = torch.maximum(most, self.bonus + k)
        old, new = torch.exp(most - top), torch.exp(self.bonus + k - top)
        mean = (old * above + new * v) / (old * below + new)
        x = x + self.time[3](torch.sigmoid(r) * mean)
        slower = most - torch.exp(self.decay)
        top = torch.maximum(slower, k)
        old, new = torch.exp(slower - top), torch.exp(k - top)
        z = self.norms[1](x)
        mixed = [z * self.mix[n] + last_channel * (1 - self.mix[n]) for n in (3, 4)]
        inner = self.channel[1](torch.relu(self.channel[0](mixed[0])) ** 2)
        x = x + torch.sigmoid(self.channel[2](mixed[1])) * inner
        return x, torch.stack([y, z, old * above + new * v, old * below + new, top])


class _Rwkv(nn.Module):
    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.words, self.begin, self.end = nn.Embedding(words, width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.layers, self.out = nn.ModuleList(_RwkvLayer(width) for _ in range(layers)), nn.Linear(width, words)

    def forward(self, word: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        x, after = self.begin(self.words(word)[0]), []
        for layer, one in zip(self.layers, state, strict=True):
            x, made = layer(x, one)
            after.append(made)
        return self.out(self.end(x)), torch.stack(after)


def rwkv_step() -> Net:
    """One word of RWKV-4 (Peng et al., 2023): six layers of 256, the state passed in and out."""
    return _Rwkv(4096, 256, 6), (torch.zeros(1, dtype=torch.int64), torch.rand(6, 5, 256))


class _Experts(nn.Module):
    def __init__(self, width: int, experts: int, kept: int) -> None:
        super().__init__()
        self.norm, self.gate, self.kept = nn.LayerNorm(width), nn.Linear(width, experts), kept
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / width**0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        chances = torch.softmax(self.gate(y), -1)
        least = chances.topk(self.kept, -1).values[..., -1:]
        chances = torch.where(chances >= least, chances, torch.zeros_like(chances))
        chances = chances / chances.sum(-1, keepdim=True)
        found = torch.relu(y.unsqueeze(-3) @ self.up) @ self.down
        return x + (found * chances.transpose(-1, -2).unsqueeze(-1)).sum(-3)


def experts() -> Net:
    """A layer of eight experts (Shazeer et al., 2017), all worked out, the best two of each word added by their weights."""
    return _Experts(256, 8, 2), picture(1, 32, 256)
