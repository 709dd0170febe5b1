"""Networks over tables and series: recommendation, tabular data, forecasts, anomalies."""

from __future__ import annotations

from itertools import combinations, pairwise

import torch
from torch import Tensor, nn

from benchmarks.corpus.nets.parts import Block, Net, mlp, picture

FIELDS, ROWS = 26, 1000  # categories of a click, and values of each


def _ids(*shape: int) -> Tensor:
    return torch.randint(0, ROWS, shape)


class _Lookup(nn.Module):
    """One table for all fields; each field has its own rows."""

    def __init__(self, width: int, fields: int = FIELDS) -> None:
        super().__init__()
        self.table = nn.Embedding(fields * ROWS, width)
        self.register_buffer("first", torch.arange(fields) * ROWS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids + self.first)


class _Dlrm(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, width) for _ in range(FIELDS))
        self.bottom = mlp(13, 256, 128, width, last=nn.ReLU())
        pairs = list(combinations(range(FIELDS + 1), 2))
        self.register_buffer("place", torch.tensor([a * (FIELDS + 1) + b for a, b in pairs]))
        self.top = mlp(width + len(pairs), 256, 128, 1, last=nn.Sigmoid())

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        dense = self.bottom(numbers)
        rows = torch.stack([dense, *[table(ids[:, n]) for n, table in enumerate(self.tables)]], 1)
        products = (rows @ rows.transpose(1, 2)).flatten(1).index_select(1, self.place)
        return self.top(torch.cat([dense, products], 1))


def dlrm() -> Net:
    """DLRM (Naumov et al., 2019): 13 numbers, 26 categories, products of all pairs; 64 clicks."""
    return _Dlrm(), (torch.rand(64, 13), _ids(64, FIELDS))


class _WideDeep(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.wide, self.rows, self.deep = _Lookup(1), _Lookup(width), mlp(FIELDS * width + 13, 256, 128, 64, 1)

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        deep = self.deep(torch.cat([self.rows(ids).flatten(1), numbers], 1))
        return torch.sigmoid(self.wide(ids).sum(1) + deep)


def wide_and_deep() -> Net:
    """Wide and deep (Cheng et al., 2016), 64 clicks."""
    return _WideDeep(), (torch.rand(64, 13), _ids(64, FIELDS))


class _DeepFm(nn.Module):
    def __init__(self, width: int = 10) -> None:
        super().__init__()
        self.one, self.two, self.deep = _Lookup(1), _Lookup(width), mlp(FIELDS * width, 400, 400, 400, 1)

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.two(ids)
        pairs = 0.5 * (rows.sum(1) ** 2 - (rows**2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.one(ids).sum(1) + pairs + self.deep(rows.flatten(1)))


def deep_fm() -> Net:
    """DeepFM (Guo et al., 2017), 128 clicks."""
    return _DeepFm(), (_ids(128, FIELDS),)


class _Towers(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.user, self.item = _Lookup(width, 6), _Lookup(width, 4)
        self.left, self.right = mlp(6 * width, 256, 128, 64), mlp(4 * width, 256, 128, 64)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        left, right = self.left(self.user(user).flatten(1)), self.right(self.item(item).flatten(1))
        normal = nn.functional.normalize
        return normal(left, dim=-1) @ normal(right, dim=-1).T


def two_tower() -> Net:
    """Two towers for retrieval (Yi et al., 2019): one user, 256 items, their cosines."""
    return _Towers(), (_ids(1, 6), _ids(256, 4))


class _Interest(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.items, self.weigh = nn.Embedding(10_000, width), nn.Sequential(nn.Linear(4 * width, 80), nn.Sigmoid())
        self.weight, self.out = nn.Linear(80, 1), mlp(3 * width, 200, 80, 1, last=nn.Sigmoid())

    def forward(self, seen: Tensor, mask: Tensor, candidate: Tensor) -> Tensor:
        history, item = self.items(seen), self.items(candidate)
        wanted = item.unsqueeze(1).expand(-1, seen.shape[1], -1)
        rows = torch.cat([history, wanted, history - wanted, history * wanted], -1)
        weights = self.weight(self.weigh(rows)) * mask.unsqueeze(-1)
        interest = (weights * history).sum(1)
        return self.out(torch.cat([interest, item, interest * item], -1))


def interest_network() -> Net:
    """Deep interest network (Zhou et al., 2018): 16 candidates after a history of 50."""
    return _Interest(), (_ids(16, 50), torch.ones(16, 50), _ids(16))


class _Factors(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.rows = nn.ModuleList(nn.Embedding(5000, width) for _ in range(4))
        self.deep, self.out = mlp(2 * width, 128, 64, 32, last=nn.ReLU()), nn.Linear(width + 32, 1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        product = self.rows[0](user) * self.rows[1](item)
        deep = self.deep(torch.cat([self.rows[2](user), self.rows[3](item)], -1))
        return torch.sigmoid(self.out(torch.cat([product, deep], -1)))


def neural_factorisation() -> Net:
    """Neural matrix factorisation (He et al., 2017), 256 pairs."""
    return _Factors(), (_ids(256), _ids(256))


class _Features(nn.Module):
    def __init__(self, numbers: int = 16, width: int = 64, layers: int = 3) -> None:
        super().__init__()
        self.scale, self.shift = (nn.Parameter(torch.randn(numbers, width) * 0.1) for _ in range(2))
        self.first = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.body = nn.Sequential(*[Block(width, 8, 2) for _ in range(layers)])
        self.out = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.unsqueeze(-1) * self.scale + self.shift
        tokens = torch.cat([self.first.expand(x.shape[0], -1, -1), tokens], 1)
        return self.out(self.body(tokens)[:, 0])


def feature_transformer() -> Net:
    """FT-Transformer (Gorishniy et al., 2021): 16 numbers as tokens, 8 rows of a table."""
    return _Features(), picture(8, 16)


def mlp_net() -> Net:
    """Dense layers over 64 columns, 32 rows, with normalisation between them."""
    layers: list[nn.Module] = []
    for before in (64, 256, 256):
        layers += [nn.Linear(before, 256), nn.BatchNorm1d(256), nn.SELU()]
    return nn.Sequential(*layers, nn.Linear(256, 10), nn.Softmax(-1)), picture(32, 64)


class _Beats(nn.Module):
    def __init__(self, past: int, future: int, width: int, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(mlp(past, width, width, width, width, past + future) for _ in range(blocks))
        self.cut = past, future

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor | int = 0
        for block in self.blocks:
            back, ahead = block(x).split(self.cut, -1)
            x, total = torch.relu(x - back), total + ahead
        return total


def n_beats() -> Net:
    """N-BEATS (Oreshkin et al., 2020), generic blocks: 96 values to the next 24, for 8 series."""
    return _Beats(96, 24, 256, 6), picture(8, 96)


class _Patches(nn.Module):
    def __init__(self, length: int = 512, patch: int = 16, stride: int = 8, width: int = 128) -> None:
        super().__init__()
        count = (length - patch) // stride + 1
        self.patch, self.stride = patch, stride
        self.begin, self.place = nn.Linear(patch, width), nn.Parameter(torch.randn(count, width) * 0.02)
        self.body = nn.Sequential(*[Block(width, 16, 2) for _ in range(3)])
        self.out = nn.Linear(count * width, 96)

    def forward(self, x: Tensor) -> Tensor:
        centre = x.mean(-1, keepdim=True)
        spread = torch.sqrt(((x - centre) ** 2).mean(-1, keepdim=True) + 1e-5)
        patches = ((x - centre) / spread).unfold(-1, self.patch, self.stride)
        found = self.out(self.body(self.begin(patches) + self.place).flatten(1))
        return found * spread + centre


def patch_transformer() -> Net:
    """PatchTST (Nie et al., 2023): 512 values of 7 series in patches of 16 to the next 96."""
    return _Patches(), picture(7, 512)


def anomaly_autoencoder() -> Net:
    """The autoencoder of MLPerf Tiny for sounds of machines: 640 numbers through 8."""
    widths = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640)), picture(1, 640)
