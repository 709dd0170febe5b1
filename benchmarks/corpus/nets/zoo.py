"""Published architectures as torchvision, timm and transformers build them, without trained weights."""

from __future__ import annotations

from typing import Any

import timm as timm_package
import torch
import torchvision as torchvision_package
import transformers
from timm.models.convmixer import ConvMixer
from timm.utils import reparameterize_model
from torch import Tensor

from benchmarks.corpus.nets.parts import Call, Net, picture


def torchvision(name: str, size: int = 224, arguments: dict[str, Any] | None = None) -> Net:
    """An image classifier of torchvision."""
    made = torchvision_package.models.get_model(name, weights=None, **(arguments or {}))
    return made, picture(1, 3, size, size)


def timm(name: str, size: int = 224, arguments: dict[str, Any] | None = None, *, fused: bool = False) -> Net:
    """An image classifier of timm. ``fused``: with the branches of training added up, as it is deployed."""
    made = timm_package.create_model(name, pretrained=False, **(arguments or {}))
    return (reparameterize_model(made.eval()) if fused else made), picture(1, 3, size, size)


def conv_mixer(width: int, depth: int) -> Net:
    """ConvMixer (Trockman and Kolter, 2022) with patches and kernels of 7, narrower than any that has a name."""
    return ConvMixer(dim=width, depth=depth, kernel_size=7, patch_size=7), picture(1, 3, 224, 224)


def segmentation(name: str, size: int) -> Net:
    """A segmenting network of torchvision; its answer has the size of the picture."""
    made = torchvision_package.models.get_model(name, weights=None, weights_backbone=None)
    return Call(made, lambda inner, x: inner(x)["out"]), picture(1, 3, size, size)


def video(name: str, frames: int, size: int) -> Net:
    """A classifier of short films."""
    return torchvision_package.models.get_model(name, weights=None), picture(1, 3, frames, size, size)


def segformer(size: int) -> Net:
    """SegFormer-B0 (Xie et al., 2021)."""
    made = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=19))

    def call(inner: torch.nn.Module, x: Tensor) -> Tensor:
        return inner(pixel_values=x).logits

    return Call(made, call), picture(1, 3, size, size)
