"""Networks over points and rays."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.corpus.nets.parts import Net, conv1, mlp, picture


class _Turn(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.points = nn.Sequential(conv1(width, 64, 1), conv1(64, 128, 1), conv1(128, 512, 1))
        self.dense = mlp(512, 256, width * width)

    def forward(self, x: Tensor) -> Tensor:
        found = self.dense(self.points(x).amax(-1)).unflatten(-1, (self.width, self.width))
        return (found + torch.eye(self.width)) @ x


def point_net(points: int) -> Net:
    """PointNet (Qi et al., 2017): both turns of the input, features of each point, their largest; 40 classes."""

    class Largest(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.amax(-1)

    layers = [_Turn(3), conv1(3, 64, 1), _Turn(64), conv1(64, 128, 1), conv1(128, 1024, 1), Largest()]
    return nn.Sequential(*layers, mlp(1024, 512, 256, 40)), picture(1, 3, points)


class _Edges(nn.Module):
    def __init__(self, neighbours: int) -> None:
        super().__init__()
        self.neighbours, self.layers = neighbours, nn.ModuleList([mlp(6, 64, 64), mlp(128, 128, 128)])
        self.out = mlp(128, 256, 40)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            square = (x**2).sum(-1, keepdim=True)
            apart = square + square.transpose(0, 1) - 2 * x @ x.transpose(0, 1)
            near = x[apart.topk(self.neighbours, -1, largest=False).indices]
            own = x.unsqueeze(1).expand_as(near)
            x = layer(torch.cat([own, near - own], -1)).amax(1)
        return self.out(x.amax(0))


def edge_conv(points: int, neighbours: int) -> Net:
    """Dynamic graph convolutions (Wang et al., 2019): neighbours chosen anew in each of two layers."""
    return _Edges(neighbours), picture(points, 3)


class _Nerf(nn.Module):
    def __init__(self, width: int = 256, octaves: tuple[int, int] = (10, 4)) -> None:
        super().__init__()
        self.octaves = octaves
        place, view = (3 + 6 * n for n in octaves)
        self.one, self.two = mlp(place, *[width] * 5, last=nn.ReLU()), mlp(width + place, *[width] * 3, last=nn.ReLU())
        self.density, self.middle = nn.Linear(width, 1), nn.Linear(width, width)
        self.colour = mlp(width + view, width // 2, 3, last=nn.Sigmoid())

    def forward(self, place: Tensor, view: Tensor) -> Tensor:
        place, view = (_waves(x, n) for x, n in zip((place, view), self.octaves, strict=True))
        x = self.two(torch.cat([self.one(place), place], -1))
        return torch.cat([self.colour(torch.cat([self.middle(x), view], -1)), torch.relu(self.density(x))], -1)


def _waves(x: Tensor, octaves: int) -> Tensor:
    """Sines and cosines of a place in steps of an octave."""
    turned = [wave(x * 2.0**n) for n in range(octaves) for wave in (torch.sin, torch.cos)]
    return torch.cat([x, *turned], -1)


def nerf(rays: int) -> Net:
    """The network of NeRF (Mildenhall et al., 2020)."""
    return _Nerf(), (torch.rand(rays, 3), torch.rand(rays, 3))
