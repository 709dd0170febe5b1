"""Detectors, without the choice among boxes at their end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torchvision
import transformers
from torch import Tensor, nn
from torchvision.models import detection as published

from benchmarks.corpus.nets.parts import Call, Net, Residual, conv, picture

CLASSES, ANCHORS = 80, 3
OUTPUTS = ANCHORS * (CLASSES + 5)


class _YoloTiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()

        def leaky(before: int, after: int, kernel: int = 3) -> nn.Module:
            return conv(before, after, kernel, act=nn.LeakyReLU(0.1))

        layers: list[nn.Module] = []
        for before, after in ((3, 16), (16, 32), (32, 64), (64, 128)):
            layers += [leaky(before, after), nn.MaxPool2d(2)]
        self.front = nn.Sequential(*layers, leaky(128, 256))
        same = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.MaxPool2d(2, 1))
        self.back = nn.Sequential(nn.MaxPool2d(2), leaky(256, 512), same, leaky(512, 512), leaky(512, 256, 1))
        self.coarse = nn.Sequential(leaky(256, 512), nn.Conv2d(512, OUTPUTS, 1))
        self.up = nn.Sequential(leaky(256, 128, 1), nn.Upsample(scale_factor=2))
        self.fine = nn.Sequential(leaky(384, 256), nn.Conv2d(256, OUTPUTS, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        front = self.front(x)
        back = self.back(front)
        return self.coarse(back), self.fine(torch.cat([self.up(back), front], 1))


def yolo_tiny(size: int) -> Net:
    """The tiny network of YOLOv3 (Redmon and Farhadi, 2018), its widest layer halved."""
    return _YoloTiny(), picture(1, 3, size, size)


def _silu(before: int, after: int, kernel: int = 3, stride: int = 1) -> nn.Module:
    return conv(before, after, kernel, stride, act=nn.SiLU())


class _Partial(nn.Module):
    """Cross-stage partial block (Wang et al., 2020)."""

    def __init__(self, before: int, after: int, count: int, *, shortcut: bool = True) -> None:
        super().__init__()
        half = after // 2
        body = [(_silu(half, half, 1), _silu(half, half)) for _ in range(count)]
        self.one = _silu(before, half, 1)
        self.other = _silu(before, half, 1)
        self.body = nn.Sequential(*[Residual(*pair) if shortcut else nn.Sequential(*pair) for pair in body])
        self.join = _silu(2 * half, after, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat([self.body(self.one(x)), self.other(x)], 1))


class _Pools(nn.Module):
    """Spatial pyramid pooling, one pool after the other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = _silu(width, width // 2, 1), _silu(2 * width, width, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.before(x)]
        for _ in range(3):
            found.append(self.pool(found[-1]))
        return self.after(torch.cat(found, 1))


class _YoloCsp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.third = nn.Sequential(
            _silu(3, 16, 6 - 1, 2), _silu(16, 32, 3, 2), _Partial(32, 32, 1), _silu(32, 64, 3, 2), _Partial(64, 64, 2)
        )
        self.fourth = nn.Sequential(_silu(64, 128, 3, 2), _Partial(128, 128, 3))
        self.fifth = nn.Sequential(_silu(128, 256, 3, 2), _Partial(256, 256, 1), _Pools(256))
        self.up = nn.Upsample(scale_factor=2)
        self.thin = nn.ModuleList([_silu(256, 128, 1), _silu(128, 64, 1)])
        self.join = nn.ModuleList([_Partial(256, 128, 1, shortcut=False), _Partial(128, 64, 1, shortcut=False)])
        self.down = nn.ModuleList([_silu(64, 64, 3, 2), _silu(128, 128, 3, 2)])
        self.last = nn.ModuleList([_Partial(128, 128, 1, shortcut=False), _Partial(256, 256, 1, shortcut=False)])
        self.heads = nn.ModuleList(nn.Conv2d(width, OUTPUTS, 1) for width in (64, 128, 256))

    def forward(self, x: Tensor) -> list[Tensor]:
        third = self.third(x)
        fourth = self.fourth(third)
        coarse = self.thin[0](self.fifth(fourth))
        middle = self.thin[1](self.join[0](torch.cat([self.up(coarse), fourth], 1)))
        fine = self.join[1](torch.cat([self.up(middle), third], 1))
        middle = self.last[0](torch.cat([self.down[0](fine), middle], 1))
        coarse = self.last[1](torch.cat([self.down[1](middle), coarse], 1))
        return [_decoded(head(y)) for head, y in zip(self.heads, (fine, middle, coarse), strict=True)]


def _decoded(y: Tensor) -> Tensor:
    """[1, anchors * values, h, w] to boxes and scores, [1, anchors, h, w, values]."""
    y = torch.sigmoid(y.unflatten(1, (ANCHORS, -1)).permute(0, 1, 3, 4, 2))
    centre, size, rest = y.split((2, 2, CLASSES + 1), 4)
    return torch.cat([centre * 2 - 0.5, (size * 2) ** 2, rest], 4)


def yolo_csp(size: int) -> Net:
    """A detector after YOLOv5n (Jocher, 2020): cross-stage blocks, two paths between three sizes of map, boxes decoded."""
    return _YoloCsp(), picture(1, 3, size, size)


def _maps_and_head(made: nn.Module) -> Net:
    def call(inner: nn.Module, x: Tensor) -> Sequence[Tensor]:
        found = inner.head(list(inner.backbone(x).values()))
        return found["cls_logits"], found["bbox_regression"]

    return Call(made, call), ()


def ssd_lite(size: int) -> Net:
    """SSDLite on MobileNet v3 (Howard et al., 2019): maps of six sizes and their heads."""
    made = published.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
    return _maps_and_head(made)[0], picture(1, 3, size, size)


def retina(size: int) -> Net:
    """RetinaNet (Lin et al., 2017) on ResNet-18 with a pyramid of 64 channels and 20 classes."""
    body = torchvision.models.resnet18(weights=None)
    pyramid = published.backbone_utils.BackboneWithFPN(
        body, {f"layer{n}": str(n) for n in (2, 3, 4)}, [128, 256, 512], 64
    )
    anchors = published.anchor_utils.AnchorGenerator(tuple((2**n,) for n in range(5, 9)), ((0.5, 1.0, 2.0),) * 4)
    return _maps_and_head(published.RetinaNet(pyramid, 20, anchor_generator=anchors))[0], picture(1, 3, size, size)


class _Blaze(nn.Module):
    """Depthwise 5 x 5, then a thin layer; channels beyond those of the shortcut are zero there."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, before, 5, stride, 2, groups=before), nn.Conv2d(before, after, 1), nn.BatchNorm2d(after)
        )
        self.pool = nn.MaxPool2d(stride, stride) if stride > 1 else nn.Identity()
        self.more = after - before

    def forward(self, x: Tensor) -> Tensor:
        shortcut = nn.functional.pad(self.pool(x), (0, 0, 0, 0, 0, self.more))
        return torch.relu(self.body(x) + shortcut)


class _BlazeFace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [(24, 24, 1), (24, 28, 1), (28, 32, 2), (32, 36, 1), (36, 42, 1), (42, 48, 2)]
        widths += [(48 + 8 * n, 56 + 8 * n, 1) for n in range(5)]
        self.fine = nn.Sequential(conv(3, 24, 5, 2), *[_Blaze(*w) for w in widths])
        self.coarse = nn.Sequential(_Blaze(88, 96, 2), *[_Blaze(96, 96) for _ in range(4)])
        self.heads = nn.ModuleList(nn.Conv2d(w, n, 1) for w, n in ((88, 2), (96, 6), (88, 32), (96, 96)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.fine(x)
        both = fine, self.coarse(fine)
        found = [head(both[n % 2]).permute(0, 2, 3, 1).flatten(1) for n, head in enumerate(self.heads)]
        return (
            torch.cat(found[:2], 1).unflatten(1, (-1, 1)),
            torch.cat(found[2:], 1).unflatten(1, (-1, 16)),
        )


def blaze_face() -> Net:
    """BlazeFace (Bazarevsky et al., 2019), 128 x 128, with plain blocks."""
    return _BlazeFace(), picture(1, 3, 128, 128)


def yolos(size: int) -> Net:
    """YOLOS-tiny (Fang et al., 2021): a vision transformer with 100 tokens for what is found."""
    config = transformers.YolosConfig(
        hidden_size=192,
        num_attention_heads=3,
        intermediate_size=768,
        image_size=[size, size],
        use_mid_position_embeddings=False,
        num_labels=91,
    )

    def call(inner: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        found = inner(pixel_values=x)
        return found.logits, found.pred_boxes

    return Call(transformers.YolosForObjectDetection(config), call), picture(1, 3, size, size)
