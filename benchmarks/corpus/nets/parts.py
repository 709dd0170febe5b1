"""What several networks are made of."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Net = tuple[nn.Module, tuple[Tensor, ...]]  # a network and inputs of the shapes that it is exported with


def picture(*shape: int) -> tuple[Tensor]:
    """One input of a shape."""
    return (torch.rand(shape),)


class Call(nn.Module):
    """A network whose forward pass is a function of a wrapped one: it chooses among outputs or names arguments."""

    def __init__(self, inner: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.inner, self.call = inner, call

    def forward(self, *inputs: Tensor) -> Any:
        """What the function makes of the wrapped network and the inputs."""
        return self.call(self.inner, *inputs)


class Residual(nn.Module):
    """x + body(x), or shortcut(x) + body(x)."""

    def __init__(self, *body: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*body), shortcut or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """The sum."""
        return self.shortcut(x) + self.body(x)


class Swap(nn.Module):
    """Two axes exchanged."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.axes = a, b

    def forward(self, x: Tensor) -> Tensor:
        """The transposed tensor."""
        return x.transpose(*self.axes)


class First(nn.Module):
    """A recurrent layer of which the sequence of outputs is wanted, without the last state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of all steps."""
        return self.layer(x)[0]


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, **more: Any) -> nn.Sequential:
    """Convolution, batch normalisation, activation (``act``: a module, ReLU if not given), padded to keep the size."""
    act = more.pop("act", None)
    dilation = more.get("dilation", 1)
    layer = nn.Conv2d(inputs, outputs, kernel, stride, dilation * (kernel // 2), bias=False, **more)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), act if act is not None else nn.ReLU())


def conv1(inputs: int, outputs: int, kernel: int, **more: Any) -> nn.Sequential:
    """The same over time."""
    act = more.pop("act", None)
    padding = more.get("dilation", 1) * (kernel // 2)
    layer = nn.Conv1d(inputs, outputs, kernel, padding=padding, bias=False, **more)
    return nn.Sequential(layer, nn.BatchNorm1d(outputs), act if act is not None else nn.ReLU())


def mlp(*widths: int, last: nn.Module | None = None) -> nn.Sequential:
    """Dense layers with ReLU between them; ``last``: what follows the last one."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *([last] if last is not None else []))


class Attention(nn.Module):
    """Multi-head attention of ``x`` over ``y`` (itself if not given), batch first."""

    def __init__(self, width: int, heads: int, context: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(context or width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """[batch, n, width] and [batch, m, context] to [batch, n, width]."""
        key, value = self.key_value(x if y is None else y).chunk(2, -1)
        parts = [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.query(x), key, value)]
        found = torch.nn.functional.scaled_dot_product_attention(*parts)
        return self.out(found.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A transformer's layer, normalised before."""

    def __init__(self, width: int, heads: int, times: int = 4) -> None:
        super().__init__()
        self.before, self.attention, self.between = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, times * width), nn.GELU(), nn.Linear(times * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        x = x + self.attention(self.before(x))
        return x + self.dense(self.between(x))
