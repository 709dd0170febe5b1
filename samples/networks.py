"""Three classifiers in plain NumPy: softmax regression, a two-layer perceptron, a small convolutional network.

Images come as float32 [items, 64] with values in [0, 1]; logits leave as [items, 10]. Each network is a list of layers
with `forward`, `backward` and `parameters`; training is Adam over seeded minibatches of images shifted by at most a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
SIDE, CLASSES = 8, 10


class Layer(Protocol):
    """One step of a network; `backward` also stores the gradients that belong to `parameters`."""

    parameters: list[Array]
    gradients: list[Array]

    def forward(self, x: Array) -> Array: ...

    def backward(self, dy: Array) -> Array: ...


@dataclass
class Dense:
    """y = x @ weight + bias, weight [inputs, outputs], He-scaled from the seeded generator."""

    inputs: int
    outputs: int
    rng: np.random.Generator
    parameters: list[Array] = field(init=False)
    gradients: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        weight = self.rng.standard_normal((self.inputs, self.outputs)) * np.sqrt(2 / self.inputs)
        self.parameters = [weight.astype(np.float32), np.zeros(self.outputs, np.float32)]
        self.gradients = [np.zeros_like(p) for p in self.parameters]

    def forward(self, x: Array) -> Array:
        self._x = x.reshape(len(x), -1)
        self._shape = x.shape
        return self._x @ self.parameters[0] + self.parameters[1]

    def backward(self, dy: Array) -> Array:
        self.gradients = [self._x.T @ dy, dy.sum(axis=0)]
        back: Array = (dy @ self.parameters[0].T).reshape(self._shape)
        return back


@dataclass
class Relu:
    parameters: list[Array] = field(default_factory=list)
    gradients: list[Array] = field(default_factory=list)

    def forward(self, x: Array) -> Array:
        self._positive = x > 0
        return x * self._positive

    def backward(self, dy: Array) -> Array:
        return dy * self._positive


@dataclass
class Convolution:
    """3 x 3, stride 1, padding 1; weight [outputs, inputs, 3, 3]; images [items, inputs, side, side]."""

    inputs: int
    outputs: int
    rng: np.random.Generator
    parameters: list[Array] = field(init=False)
    gradients: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.outputs, self.inputs, 3, 3)
        weight = self.rng.standard_normal(shape) * np.sqrt(2 / (9 * self.inputs))
        self.parameters = [weight.astype(np.float32), np.zeros(self.outputs, np.float32)]
        self.gradients = [np.zeros_like(p) for p in self.parameters]

    def forward(self, x: Array) -> Array:
        self._items, _, self._side, _ = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        self._columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, self.inputs * 9)
        y = self._columns @ self.parameters[0].reshape(self.outputs, -1).T + self.parameters[1]
        image: Array = y.reshape(self._items, self._side, self._side, self.outputs).transpose(0, 3, 1, 2)
        return image

    def backward(self, dy: Array) -> Array:
        rows = dy.transpose(0, 2, 3, 1).reshape(-1, self.outputs)
        self.gradients = [(rows.T @ self._columns).reshape(self.parameters[0].shape), rows.sum(axis=0)]
        columns = (rows @ self.parameters[0].reshape(self.outputs, -1)).reshape(
            self._items, self._side, self._side, self.inputs, 3, 3
        )
        padded = np.zeros((self._items, self.inputs, self._side + 2, self._side + 2), np.float32)
        for i in range(3):
            for j in range(3):
                piece = columns[..., i, j].transpose(0, 3, 1, 2)
                padded[:, :, i : i + self._side, j : j + self._side] += piece
        return padded[:, :, 1:-1, 1:-1]


@dataclass
class MaxPool:
    """2 x 2, stride 2; a tie sends the gradient to every winner in equal shares."""

    parameters: list[Array] = field(default_factory=list)
    gradients: list[Array] = field(default_factory=list)

    def forward(self, x: Array) -> Array:
        n, c, side, _ = x.shape
        blocks = x.reshape(n, c, side // 2, 2, side // 2, 2)
        y: Array = blocks.max(axis=(3, 5))
        winners = blocks == y[:, :, :, None, :, None]
        self._share = winners / winners.sum(axis=(3, 5), keepdims=True, dtype=np.float32)
        return y

    def backward(self, dy: Array) -> Array:
        n, c, half, _ = dy.shape
        back: Array = (self._share * dy[:, :, :, None, :, None]).reshape(n, c, 2 * half, 2 * half)
        return back


@dataclass
class Image:
    """[items, 64] to [items, 1, 8, 8]."""

    parameters: list[Array] = field(default_factory=list)
    gradients: list[Array] = field(default_factory=list)

    def forward(self, x: Array) -> Array:
        return x.reshape(-1, 1, SIDE, SIDE)

    def backward(self, dy: Array) -> Array:
        return dy.reshape(len(dy), -1)


def softmax_regression(rng: np.random.Generator) -> list[Layer]:
    """650 parameters: the small one."""
    return [Dense(SIDE * SIDE, CLASSES, rng)]


def perceptron(rng: np.random.Generator) -> list[Layer]:
    """One hidden layer of 128."""
    return [Dense(SIDE * SIDE, 128, rng), Relu(), Dense(128, CLASSES, rng)]


def convolutional(rng: np.random.Generator) -> list[Layer]:
    """Two convolutions (32, 64 channels), a 2 x 2 maximum, two dense layers: the large one."""
    convolutions: list[Layer] = [Image(), Convolution(1, 32, rng), Relu(), Convolution(32, 64, rng), Relu(), MaxPool()]
    return [*convolutions, Dense(64 * 16, 64, rng), Relu(), Dense(64, CLASSES, rng)]


def softmax(logits: Array) -> Array:
    """Probabilities along the last axis."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return result


def logits_of(layers: list[Layer], x: Array) -> Array:
    """The network's answer for images [items, 64]."""
    for layer in layers:
        x = layer.forward(x)
    return x


def shift(images: Array, rng: np.random.Generator) -> Array:
    """Every image moved by -1, 0 or 1 pixel in each direction, zeros coming in."""
    padded = np.pad(images.reshape(-1, SIDE, SIDE), ((0, 0), (1, 1), (1, 1)))
    rows, columns = rng.integers(0, 3, (2, len(images)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE), axis=(1, 2))
    moved: Array = windows[np.arange(len(images)), rows, columns].reshape(len(images), -1)
    return moved


def train(
    layers: list[Layer],
    x: Array,
    y: Array,
    *,
    epochs: int,
    rate: float,
    decay: float,
    shifted: bool,
    rng: np.random.Generator,
) -> None:
    """Adam with decoupled weight decay and a cosine rate, minibatches of 64, cross-entropy; changes the layers in place."""
    moments = [[(np.zeros_like(p), np.zeros_like(p)) for p in layer.parameters] for layer in layers]
    total, step = epochs * -(-len(x) // 64), 0
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for start in range(0, len(x), 64):
            chosen = order[start : start + 64]
            batch = shift(x[chosen], rng) if shifted else x[chosen]
            gradient = softmax(logits_of(layers, batch))
            gradient[np.arange(len(chosen)), y[chosen]] -= 1
            gradient = (gradient / len(chosen)).astype(np.float32)
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            step += 1
            now = rate * 0.5 * (1 + np.cos(np.pi * step / total))
            _adam(layers, moments, step=step, rate=float(now), decay=decay)


def _adam(
    layers: list[Layer], moments: list[list[tuple[Array, Array]]], *, step: int, rate: float, decay: float
) -> None:
    """One update of every parameter; biases and weights alike."""
    for layer, pairs in zip(layers, moments, strict=True):
        for parameter, gradient, (first, second) in zip(layer.parameters, layer.gradients, pairs, strict=True):
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient * gradient - second)
            corrected = np.sqrt(second / (1 - 0.999**step)) + 1e-8
            parameter -= rate * (first / (1 - 0.9**step) / corrected + decay * parameter)
