"""The models of the corpus as bytes: fetched, filled with seeded weights, or read from where the export put them."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

from benchmarks import public
from benchmarks.corpus.listed import Model
from bin.models import ROOT, fetch, manifest
from tests.models import light_model, model_bytes

FOLDER = ROOT / "var" / "corpus"
DIGESTS = Path(__file__).with_name("digests.toml")


class NotMade(Exception):
    """A model is not there yet; the message is a sentence with the remedy."""


def data_of(model: Model) -> tuple[bytes, dict[str, int]]:
    """The ONNX file of a model and the sizes of its open dimensions. Raises NotMade, or FetchError where it cannot be fetched."""
    if model.source == "tested":
        return model_bytes(model.name)
    if model.source == "public":
        run = manifest(public.LISTED)[model.name].run
        return fetch(model.name, listed=public.LISTED).read_bytes(), run.get("dims", {})
    if model.source == "light":
        return light_model(model.recipe["name"]).SerializeToString(deterministic=True), {}
    path = path_of(model)
    if not path.exists():
        raise NotMade(f"{model.name} is not exported yet; run `python -m benchmarks.corpus make {model.name}`.")
    return path.read_bytes(), {}


def path_of(model: Model) -> Path:
    """Where the export of a model lies."""
    return FOLDER / f"{model.name}.onnx"


def digests() -> dict[str, str]:
    """SHA-256 of each exported model by name, as committed."""
    return tomllib.loads(DIGESTS.read_text(encoding="utf-8")) if DIGESTS.exists() else {}


def differs(model: Model) -> bool:
    """Whether an export is another file than the one that the committed figures are of."""
    path = path_of(model)
    if model.source != "exported" or not path.exists():
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() != digests().get(model.name)
