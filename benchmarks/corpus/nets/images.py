"""Networks from pictures to pictures, features or actions."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from benchmarks.corpus.nets.parts import Net, Residual, conv, picture


def mobile_face_net() -> Net:
    """MobileFaceNet (Chen et al., 2018): inverted bottlenecks and a depthwise convolution over the whole last map."""

    def bottleneck(before: int, after: int, wide: int, stride: int) -> nn.Module:
        body = (
            conv(before, wide, 1, act=nn.PReLU(wide)),
            conv(wide, wide, 3, stride, groups=wide, act=nn.PReLU(wide)),
            conv(wide, after, 1, act=nn.Identity()),
        )
        return Residual(*body) if stride == 1 and before == after else nn.Sequential(*body)

    layers: list[nn.Module] = [conv(3, 64, 3, 2, act=nn.PReLU(64)), conv(64, 64, groups=64, act=nn.PReLU(64))]
    before = 64
    for times, after, count, stride in ((2, 64, 5, 2), (4, 128, 1, 2), (2, 128, 6, 1), (4, 128, 1, 2), (2, 128, 2, 1)):
        for number in range(count):
            layers.append(bottleneck(before, after, times * before, stride if number == 0 else 1))
            before = after
    whole = nn.Sequential(nn.Conv2d(512, 512, 7, groups=512, bias=False), nn.BatchNorm2d(512))
    end = nn.Sequential(conv(128, 512, 1, act=nn.PReLU(512)), whole, nn.Flatten(), nn.Linear(512, 128))
    return nn.Sequential(*layers, end), picture(1, 3, 112, 112)


def context_net(size: int) -> Net:
    """Dilated context aggregation (Yu and Koltun, 2016) behind a small front end."""
    front = [conv(3, 32, 3, 2), conv(32, 64), conv(64, 64, 3, 2), conv(64, 64)]
    context = [conv(64, 64, dilation=rate) for rate in (1, 1, 2, 4, 8, 16, 1)]
    return nn.Sequential(*front, *context, nn.Conv2d(64, 21, 1)), picture(1, 3, size, size)


class _UNet(nn.Module):
    def __init__(self, width: int, levels: int = 4) -> None:
        super().__init__()
        widths = [width << level for level in range(levels)]
        self.down = nn.ModuleList(
            nn.Sequential(conv(before, after), conv(after, after))
            for before, after in zip([3, *widths], widths, strict=False)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.join = nn.ModuleList(nn.Sequential(conv(2 * w, w), conv(w, w)) for w in widths[-2::-1])
        self.pool, self.last = nn.MaxPool2d(2), nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for number, layers in enumerate(self.down):
            x = layers(self.pool(x) if number else x)
            kept.append(x)
        for up, join, skipped in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([skipped, up(x)], 1))
        return self.last(x)


def unet(size: int, width: int) -> Net:
    """U-Net (Ronneberger et al., 2015) with padding and batch normalisation."""
    return _UNet(width), picture(1, 3, size, size)


def seg_net(size: int, width: int) -> Net:
    """An encoder by strided convolutions and a decoder by transposed ones, 4 x 4 with stride 2."""
    down = [conv(before, after, 3, 2) for before, after in ((3, width), (width, 2 * width), (2 * width, 4 * width))]

    def up(before: int, after: int) -> list[nn.Module]:
        return [nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]

    middle = [conv(4 * width, 4 * width) for _ in range(2)]
    ups = [*up(4 * width, 2 * width), *up(2 * width, width), nn.ConvTranspose2d(width, 19, 4, 2, 1)]
    return nn.Sequential(*down, *middle, *ups), picture(1, 3, size, size)


def style_transfer(size: int) -> Net:
    """Fast style transfer (Johnson et al., 2016) with instance normalisation and nearest upsampling."""

    def layer(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [
            nn.ReflectionPad2d(kernel // 2),
            nn.Conv2d(before, after, kernel, stride),
            nn.InstanceNorm2d(after, affine=True),
        ]

    down = [*layer(3, 32, 9), nn.ReLU(), *layer(32, 64, 3, 2), nn.ReLU(), *layer(64, 128, 3, 2), nn.ReLU()]
    blocks = [Residual(*layer(128, 128, 3), nn.ReLU(), *layer(128, 128, 3)) for _ in range(5)]
    up = [nn.Upsample(scale_factor=2), *layer(128, 64, 3), nn.ReLU()]
    up += [nn.Upsample(scale_factor=2), *layer(64, 32, 3), nn.ReLU(), nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9)]
    return nn.Sequential(*down, *blocks, *up), picture(1, 3, size, size)


def dcgan_generator() -> Net:
    """The generator of DCGAN (Radford et al., 2016): 100 numbers to a picture of 64 x 64."""
    layers: list[nn.Module] = []
    widths = [100, 512, 256, 128, 64]
    for number, (before, after) in enumerate(itertools.pairwise(widths)):
        stride, padding = (2, 1) if number else (1, 0)
        layers += [
            nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()), picture(1, 100, 1, 1)


def espcn(size: int) -> Net:
    """ESPCN (Shi et al., 2016), three times the size by sub-pixels."""
    layers = [nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh()]
    return nn.Sequential(*layers, nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)), picture(1, 1, size, size)


def srcnn(size: int) -> Net:
    """SRCNN 9-5-5 (Dong et al., 2014)."""
    layers = [nn.Conv2d(1, 64, 9, padding=4), nn.ReLU(), nn.Conv2d(64, 32, 5, padding=2), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(32, 1, 5, padding=2)), picture(1, 1, size, size)


def edsr(size: int, width: int, blocks: int) -> Net:
    """EDSR (Lim et al., 2017), smaller: residual blocks without normalisation, twice the size."""

    def same(before: int, after: int) -> nn.Conv2d:
        return nn.Conv2d(before, after, 3, padding=1)

    body = [Residual(same(width, width), nn.ReLU(), same(width, width)) for _ in range(blocks)]
    end = [same(width, 4 * width), nn.PixelShuffle(2), same(width, 3)]
    return nn.Sequential(same(3, width), Residual(*body, same(width, width)), *end), picture(1, 3, size, size)


class _Less(nn.Module):
    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x - self.body(x)


def dncnn(size: int, depth: int) -> Net:
    """DnCNN (Zhang et al., 2017): the noise of a picture, taken away from it."""
    first, last = nn.Conv2d(1, 64, 3, padding=1), nn.Conv2d(64, 1, 3, padding=1)
    return _Less(first, nn.ReLU(), *[conv(64, 64) for _ in range(depth - 2)], last), picture(1, 1, size, size)


class _SuperPoint(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [(1, 64), (64, 64), (64, 64), (64, 64), (64, 128), (128, 128), (128, 128), (128, 128)]
        layers: list[nn.Module] = []
        for number, (before, after) in enumerate(widths):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
            if number in (1, 3, 5):
                layers.append(nn.MaxPool2d(2))
        self.body = nn.Sequential(*layers)
        self.points = nn.Sequential(nn.Conv2d(128, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 65, 1))
        self.words = nn.Sequential(nn.Conv2d(128, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 256, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(x)
        found = nn.functional.pixel_shuffle(torch.softmax(self.points(x), 1)[:, :-1], 8)
        words = self.words(x)
        return found, words / words.norm(dim=1, keepdim=True)


def superpoint(height: int, width: int) -> Net:
    """SuperPoint (DeTone et al., 2018): points of interest and a descriptor for each cell of 8 x 8."""
    return _SuperPoint(), picture(1, 1, height, width)


def dqn() -> Net:
    """The network that plays Atari (Mnih et al., 2015)."""
    layers = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()]
    dense = [nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 18)]
    return nn.Sequential(*layers, *dense), picture(1, 4, 84, 84)


def conv_autoencoder() -> Net:
    """Pictures of 128 x 128 through 128 numbers and back."""
    down = [conv(1, 32, 5, 2), conv(32, 64, 5, 2), conv(64, 128, 3, 2), conv(128, 64, 3, 2)]
    middle = [nn.Flatten(), nn.Linear(4096, 128), nn.Linear(128, 4096), nn.ReLU(), nn.Unflatten(1, (64, 8, 8))]
    up: list[nn.Module] = []
    for before, after in ((64, 128), (128, 64), (64, 32)):
        up += [nn.ConvTranspose2d(before, after, 3, 2, 1, output_padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    last = nn.ConvTranspose2d(32, 1, 5, 2, 2, output_padding=1)
    return nn.Sequential(*down, *middle, *up, last, nn.Sigmoid()), picture(1, 1, 128, 128)
