"""Networks for sound and speech, after their published descriptions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.corpus.nets.parts import Attention, First, Net, Residual, Swap, conv, conv1, mlp, picture


class _Music(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.contour = nn.Sequential(
            nn.Conv2d(8, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 8, (3, 39), padding=(1, 19)), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 1, 5, padding=2), nn.Sigmoid(),
        )  # fmt: skip  # a line per layer
        self.note = nn.Sequential(
            nn.Conv2d(1, 32, 7, (1, 3), (3, 2)), nn.ReLU(), nn.Conv2d(32, 1, (7, 3), padding=(3, 1)), nn.Sigmoid()
        )
        self.begin = nn.Sequential(nn.Conv2d(8, 32, 5, (1, 3), (2, 1)), nn.BatchNorm2d(32), nn.ReLU())
        self.onset = nn.Sequential(nn.Conv2d(33, 1, 3, padding=1), nn.Sigmoid())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        contour = self.contour(x)
        note = self.note(contour)
        return contour, note, self.onset(torch.cat([note, self.begin(x)], 1))


def music_transcription(frames: int) -> Net:
    """Notes out of music, after Basic Pitch (Bittner et al., 2022): kernels of 5 x 5, 3 x 39, 7 x 7 and 7 x 3."""
    return _Music(), picture(1, 8, frames, 264)


def keyword_ds_cnn() -> Net:
    """DS-CNN for key words (Zhang et al., 2017), as MLPerf Tiny runs it: 49 x 10 coefficients, twelve words."""
    first = [nn.Conv2d(1, 64, (10, 4), 2, (5, 1), bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    body = [nn.Sequential(conv(64, 64, groups=64), conv(64, 64, 1)) for _ in range(4)]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12), nn.Softmax(1)]
    return nn.Sequential(*first, *body, *end), picture(1, 1, 49, 10)


class _Causal(nn.Module):
    """A convolution over time that sees the past alone."""

    def __init__(self, before: int, after: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.pad, self.layer = (kernel - 1) * dilation, nn.Conv1d(before, after, kernel, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(nn.functional.pad(x, (self.pad, 0)))


def tcn() -> Net:
    """A temporal convolutional network (Bai et al., 2018): kernel 3, dilations 1 to 64, 8 channels over 512 steps."""
    blocks: list[nn.Module] = []
    before = 8
    for level in range(7):
        body = [_Causal(before, 64, 3, 1 << level), nn.ReLU(), _Causal(64, 64, 3, 1 << level), nn.ReLU()]
        blocks += [Residual(*body, shortcut=nn.Conv1d(before, 64, 1) if before != 64 else None), nn.ReLU()]
        before = 64
    return nn.Sequential(*blocks, nn.Conv1d(64, 4, 1)), picture(1, 8, 512)


class _WaveNet(nn.Module):
    def __init__(self, width: int = 32, skip: int = 64) -> None:
        super().__init__()
        self.first = _Causal(1, width, 2, 1)
        self.gates = nn.ModuleList(_Causal(width, 2 * width, 2, 1 << n) for _ in range(2) for n in range(8))
        self.on = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in self.gates)
        self.out = nn.ModuleList(nn.Conv1d(width, skip, 1) for _ in self.gates)
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, 256, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        total: Tensor | int = 0
        for gate, on, out in zip(self.gates, self.on, self.out, strict=True):
            a, b = gate(x).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            x, total = x + on(y), total + out(y)
        return self.last(total)


def wavenet(samples: int) -> Net:
    """WaveNet (van den Oord et al., 2016), two stacks of dilations 1 to 128."""
    return _WaveNet(), picture(1, 1, samples)


def quartz_net() -> Net:
    """QuartzNet (Kriman et al., 2020), one block for each kernel: separable convolutions over time of width 33 to 75."""

    def separable(before: int, after: int, kernel: int, act: nn.Module) -> list[nn.Module]:
        return [nn.Conv1d(before, before, kernel, padding=kernel // 2, groups=before), conv1(before, after, 1, act=act)]

    layers: list[nn.Module] = [nn.Conv1d(64, 256, 33, 2, 16), nn.BatchNorm1d(256), nn.ReLU()]
    before = 256
    for after, kernel in ((256, 33), (256, 39), (512, 51), (512, 63), (512, 75)):
        body = [*separable(before, after, kernel, nn.ReLU()), *separable(after, after, kernel, nn.Identity())]
        layers += [Residual(*body, shortcut=conv1(before, after, 1, act=nn.Identity())), nn.ReLU()]
        before = after
    return nn.Sequential(*layers, conv1(512, 512, 1), nn.Conv1d(512, 29, 1), nn.LogSoftmax(1)), picture(1, 64, 256)


class _TasNet(nn.Module):
    def __init__(self, filters: int = 128, width: int = 64, hidden: int = 128) -> None:
        super().__init__()
        self.encode = nn.Conv1d(1, filters, 16, 8, bias=False)
        self.begin = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1))

        def block(dilation: int) -> nn.Module:
            inner = nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden)
            norms = nn.GroupNorm(1, hidden), nn.GroupNorm(1, hidden)
            begin = nn.Conv1d(width, hidden, 1), nn.PReLU(), norms[0]
            return Residual(*begin, inner, nn.PReLU(), norms[1], nn.Conv1d(hidden, width, 1))

        self.body = nn.Sequential(*[block(1 << n) for _ in range(2) for n in range(6)])
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(width, 2 * filters, 1), nn.Sigmoid())
        self.decode = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        waves = self.encode(x)
        masks = self.mask(self.body(self.begin(waves))).unflatten(1, (2, -1))
        return self.decode((masks * waves.unsqueeze(1)).flatten(0, 1))


def conv_tasnet() -> Net:
    """Conv-TasNet (Luo and Mesgarani, 2019), smaller: two speakers out of half a second at 8 kHz."""
    return _TasNet(), picture(1, 1, 4000)


class _NoiseGru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(42, 24)
        self.voice, self.noise, self.denoise = nn.GRU(24, 24), nn.GRU(90, 48), nn.GRU(114, 96)
        self.is_voice, self.gains = nn.Linear(24, 1), nn.Linear(96, 22)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        dense = torch.tanh(self.dense(x))
        voice = self.voice(dense)[0]
        noise = self.noise(torch.cat([dense, voice, x], -1))[0]
        found = self.denoise(torch.cat([voice, noise, x], -1))[0]
        return torch.sigmoid(self.gains(found)), torch.sigmoid(self.is_voice(voice))


def noise_gru() -> Net:
    """RNNoise (Valin, 2018): gains of 22 bands by three recurrent layers, over 50 frames."""
    return _NoiseGru(), picture(50, 1, 42)


class _Conformer(nn.Module):
    def __init__(self, width: int = 144, heads: int = 4, kernel: int = 31) -> None:
        super().__init__()

        def dense() -> nn.Module:
            inner = nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
            return nn.Sequential(nn.LayerNorm(width), *inner)

        self.begin, self.end = dense(), dense()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.convolution = nn.Sequential(
            nn.LayerNorm(width), Swap(1, 2), nn.Conv1d(width, 2 * width, 1), nn.GLU(1),
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width), nn.BatchNorm1d(width), nn.SiLU(),
            nn.Conv1d(width, width, 1), Swap(1, 2),
        )  # fmt: skip  # layers of one step in one line
        self.last = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.begin(x)
        x = x + self.attention(self.norm(x))
        x = x + self.convolution(x)
        return self.last(x + 0.5 * self.end(x))


def conformer_block() -> Net:
    """A block of Conformer S (Gulati et al., 2020) over 128 frames."""
    return _Conformer(), picture(1, 128, 144)


def deep_speech() -> Net:
    """After Deep Speech 2 (Amodei et al., 2016): two large-kernel convolutions, two GRUs in both directions, letters."""
    front = [nn.Conv2d(1, 16, (41, 11), 2, (20, 5)), nn.BatchNorm2d(16), nn.Hardtanh(0, 20)]
    front += [nn.Conv2d(16, 16, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(16), nn.Hardtanh(0, 20)]
    flat = [nn.Flatten(1, 2), Swap(1, 2)]
    rest = [First(nn.GRU(656, 256, 2, batch_first=True, bidirectional=True)), nn.Linear(512, 29), nn.LogSoftmax(-1)]
    return nn.Sequential(*front, *flat, *rest), picture(1, 1, 161, 128)


class _Predictor(nn.Module):
    def __init__(self, words: int = 1024, width: int = 320) -> None:
        super().__init__()
        self.words, self.cell, self.out = (
            nn.Embedding(words, width),
            nn.LSTM(width, width, 2),
            mlp(2 * width, 512, words),
        )

    def forward(self, word: Tensor, sound: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found, (hidden, cell) = self.cell(self.words(word), (hidden, cell))
        return self.out(torch.cat([found[0], sound], -1)), hidden, cell


def transducer_predictor() -> Net:
    """One step of a transducer's predictor and joint network (Graves, 2012), its state passed in and out."""
    word = torch.zeros((1, 1), dtype=torch.int64)
    return _Predictor(), (word, torch.rand(1, 320), torch.rand(2, 1, 320), torch.rand(2, 1, 320))
