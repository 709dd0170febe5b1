"""Problems found in a model, each with a remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """A problem of a model. `kind` is a stable code, `count` is the number of occurrences, and `node` is the first
    affected node.
    """

    kind: str
    message: str
    remedy: str
    node: str = ""
    operator: str = ""
    count: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


EMPTY = Finding("empty", "The file is empty.", "Export the model again and upload the new file.")
TEXT = Finding(
    "not-a-model",
    "This is a text file, not an ONNX model.",
    "Upload the .onnx file itself, as written by torch.onnx.export or tf2onnx.",
)
FOREIGN = Finding(
    "not-a-model",
    "This is not an ONNX model: its bytes are not a valid ONNX encoding.",
    "Upload the .onnx file itself. Unpack an archive first, or export a .pt, .h5 or .pb file to ONNX.",
)
DAMAGED = Finding(
    "damaged",
    "The file is damaged: a name in it is not valid UTF-8 text.",
    "Copy or export the model again and upload the new file.",
)
NO_GRAPH = Finding(
    "not-a-model",
    "The file has no graph with operations in it.",
    "Export the model again; the saved file contains no network.",
)


def archive(message: str) -> Finding:
    """Return the finding for an archive that is not one model with its side files."""
    return Finding("archive", message, "")


def cut(missing: int) -> Finding:
    """Return the finding for a truncated file."""
    return Finding(
        "truncated",
        f"The file was cut off: at least {missing:,} bytes are missing.",
        "Copy or download the model again, check that it is as large as the original, and upload it.",
    )
