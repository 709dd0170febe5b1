"""Graph networks; the edges are a dense matrix, which a model of fixed shapes can take as an input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.corpus.nets.parts import Net, mlp


class _Gcn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(256, 64), nn.Linear(64, 64), nn.Linear(64, 7)])

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        degree = torch.rsqrt(edges.sum(-1, keepdim=True) + 1e-6)
        edges = edges * degree * degree.transpose(0, 1)
        for number, layer in enumerate(self.layers):
            x = edges @ layer(torch.relu(x) if number else x)
        return torch.log_softmax(x, -1)


def gcn() -> Net:
    """Graph convolutions (Kipf and Welling, 2017): 256 nodes, three layers; the edges are normalised in the network."""
    return _Gcn(), (torch.rand(256, 256), (torch.rand(256, 256) < 0.1).float())


class _Gat(nn.Module):
    def __init__(self, before: int, after: int, heads: int) -> None:
        super().__init__()
        self.heads, self.layer = heads, nn.Linear(before, heads * after, bias=False)
        self.source, self.target = (nn.Parameter(torch.randn(heads, after) * 0.1) for _ in range(2))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        rows = self.layer(x).unflatten(-1, (self.heads, -1))
        source, target = (rows * self.source).sum(-1).T, (rows * self.target).sum(-1).T
        scores = nn.functional.leaky_relu(source.unsqueeze(-1) + target.unsqueeze(-2), 0.2)
        weights = torch.softmax(torch.where(edges > 0, scores, torch.full_like(scores, -1e9)), -1)
        return (weights @ rows.transpose(0, 1)).transpose(0, 1).flatten(1)


class _Gats(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = _Gat(128, 16, 8), _Gat(128, 7, 1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.two(nn.functional.elu(self.one(x, edges)), edges)


def gat() -> Net:
    """Graph attention (Velickovic et al., 2018): 128 nodes, eight heads, then one."""
    return _Gats(), (torch.rand(128, 128), (torch.rand(128, 128) < 0.1).float())


class _Sage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = ((100, 128), (128, 128), (128, 47))
        self.own = nn.ModuleList(nn.Linear(*w) for w in widths)
        self.other = nn.ModuleList(nn.Linear(*w, bias=False) for w in widths)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        mean = edges / edges.sum(-1, keepdim=True).clamp(min=1)
        for number, (own, other) in enumerate(zip(self.own, self.other, strict=True)):
            x = torch.relu(x) if number else x
            x = nn.functional.normalize(own(x) + other(mean @ x), dim=-1)
        return x


def sage() -> Net:
    """GraphSAGE (Hamilton et al., 2017) with means: 192 nodes, three layers."""
    return _Sage(), (torch.rand(192, 100), (torch.rand(192, 192) < 0.1).float())


class _Messages(nn.Module):
    def __init__(self, width: int = 64, rings: int = 25, layers: int = 3) -> None:
        super().__init__()
        self.kinds = nn.Embedding(100, width)
        self.register_buffer("rings", torch.linspace(0, 5, rings))
        self.filters = nn.ModuleList(mlp(rings, width, width) for _ in range(layers))
        self.before = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.after = nn.ModuleList(mlp(width, width, width) for _ in range(layers))
        self.out = mlp(width, 32, 1)

    def forward(self, kinds: Tensor, places: Tensor) -> Tensor:
        x = self.kinds(kinds)
        apart = torch.sqrt(((places.unsqueeze(0) - places.unsqueeze(1)) ** 2).sum(-1) + 1e-6)
        rings = torch.exp(-10 * (apart.unsqueeze(-1) - self.rings) ** 2)
        for filters, before, after in zip(self.filters, self.before, self.after, strict=True):
            x = x + after((filters(rings) * before(x).unsqueeze(0)).sum(1))
        return self.out(x).sum(0)


def molecule_messages() -> Net:
    """After SchNet (Schuett et al., 2017): the energy of 24 atoms by filters over their distances."""
    return _Messages(), (torch.randint(1, 20, (24,)), torch.rand(24, 3) * 5)
