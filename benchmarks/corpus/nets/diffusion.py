"""Networks of diffusion models, and blocks of those that are too large whole."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from benchmarks.corpus.nets.parts import Attention, Net, Residual, picture

GROUPS = 32


def _waves(time: Tensor, width: int) -> Tensor:
    """[batch] to [batch, width]: sines and cosines of a step's number."""
    rates = torch.exp(torch.arange(width // 2) * (-math.log(10_000) / (width // 2)))
    angles = time.unsqueeze(-1) * rates
    return torch.cat([torch.sin(angles), torch.cos(angles)], -1)


def _step(before: int, after: int) -> list[nn.Module]:
    return [nn.GroupNorm(GROUPS, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1)]


class _Timed(nn.Module):
    """A residual block that is told the step's number."""

    def __init__(self, before: int, after: int, time: int) -> None:
        super().__init__()
        self.one, self.two = nn.Sequential(*_step(before, after)), nn.Sequential(*_step(after, after))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, after))
        self.shortcut = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.one(x) + self.time(time)[..., None, None]
        return self.two(y) + self.shortcut(x)


class _Looks(nn.Module):
    """Attention among the places of a map."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm, self.own = nn.GroupNorm(GROUPS, width), Attention(width, heads)

    def forward(self, x: Tensor, text: Tensor | None = None) -> Tensor:
        y = self.norm(x).flatten(2).transpose(1, 2)
        y = self.more(y + self.own(y), text)
        return x + y.transpose(1, 2).unflatten(2, x.shape[2:])

    def more(self, y: Tensor, text: Tensor | None) -> Tensor:
        """What follows: nothing here. [batch, places, width]."""
        return y


class _Reads(_Looks):
    """Also over a text, and a dense layer with gates."""

    def __init__(self, width: int, heads: int, text: int) -> None:
        super().__init__(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.other, self.up, self.down = (
            Attention(width, heads, text),
            nn.Linear(width, 8 * width),
            nn.Linear(4 * width, width),
        )

    def more(self, y: Tensor, text: Tensor | None) -> Tensor:
        y = y + self.other(self.norms[0](y), text)
        value, gate = self.up(self.norms[1](y)).chunk(2, -1)
        return y + self.down(value * nn.functional.gelu(gate))


class _UNet(nn.Module):
    def __init__(self, width: int, time: int = 256) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        pairs = [(width, width), (width, 2 * width), (2 * width, 2 * width)]
        self.down = nn.ModuleList(_Timed(*pair, time) for pair in pairs)
        self.small = nn.ModuleList(nn.Conv2d(after, after, 3, 2, 1) for _, after in pairs[:-1])
        self.middle = nn.ModuleList([_Timed(2 * width, 2 * width, time) for _ in range(2)])
        self.looks = _Looks(2 * width, 4)
        self.up = nn.ModuleList(_Timed(2 * after, before, time) for before, after in reversed(pairs))
        self.large = nn.ModuleList(nn.Conv2d(before, before, 3, padding=1) for before, _ in reversed(pairs[1:]))
        self.last = nn.Sequential(*_step(width, 3))

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        time, x = self.time(_waves(time, self.width)), self.first(x)
        kept = []
        for number, block in enumerate(self.down):
            x = block(x, time)
            kept.append(x)
            x = self.small[number](x) if number < len(self.small) else x
        x = self.middle[1](self.looks(self.middle[0](x, time)), time)
        for number, block in enumerate(self.up):
            x = block(torch.cat([x, kept.pop()], 1), time)
            if number < len(self.large):
                x = self.large[number](nn.functional.interpolate(x, scale_factor=2.0))
        return self.last(x)


def unet(size: int, width: int) -> Net:
    """The U-Net of denoising diffusion (Ho et al., 2020), one block at each of three sizes."""
    return _UNet(width), (torch.rand(1, 3, size, size), torch.rand(1))


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.block, self.looks, self.width = _Timed(width, width, 4 * width), _Reads(width, 8, 768), width

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        return self.looks(self.block(x, self.time(_waves(time, self.width))), text)


def block(size: int, width: int, text: int) -> Net:
    """The first residual block of a latent diffusion model (Rombach et al., 2022) and its attention over a text."""
    return _Block(width), (torch.rand(1, width, size, size), torch.rand(1), torch.rand(1, text, 768))


class _Dit(nn.Module):
    def __init__(self, width: int, heads: int = 6) -> None:
        super().__init__()
        self.one, self.two = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attention = Attention(width, heads)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.told = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        shift, scale, gate, shift2, scale2, gate2 = self.told(told).unsqueeze(1).chunk(6, -1)
        x = x + gate * self.attention(self.one(x) * (1 + scale) + shift)
        return x + gate2 * self.dense(self.two(x) * (1 + scale2) + shift2)


def dit_block(tokens: int, width: int) -> Net:
    """A block of a diffusion transformer, DiT-S (Peebles and Xie, 2023)."""
    return _Dit(width), (torch.rand(1, tokens, width), torch.rand(1, width))


def vae_decoder(size: int, width: int) -> Net:
    """The decoder of a latent diffusion model, three sizes: latent pictures of four channels to four times their size."""

    def residual(before: int, after: int) -> nn.Module:
        shortcut = nn.Conv2d(before, after, 1) if before != after else None
        return Residual(*_step(before, after), *_step(after, after), shortcut=shortcut)

    def larger(channels: int) -> list[nn.Module]:
        return [nn.Upsample(scale_factor=2.0), nn.Conv2d(channels, channels, 3, padding=1)]

    wide = 4 * width
    layers = [nn.Conv2d(4, wide, 3, padding=1), residual(wide, wide), _Looks(wide, 1), residual(wide, wide)]
    layers += [*larger(wide), residual(wide, 2 * width), *larger(2 * width), residual(2 * width, width)]
    return nn.Sequential(*layers, *_step(width, 3)), picture(1, 4, size, size)
