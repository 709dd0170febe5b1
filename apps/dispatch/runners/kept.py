"""The sessions of ONNX Runtime that a worker of a host pool keeps, since loading a model takes longer than running it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings

from apps.dispatch.runners.runtime import session_open
from apps.registry.child import work_file
from apps.registry.packages import model_unpack
from apps.registry.selectors import modelversion_save, versions_present

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from apps.registry.models import ModelVersion

SESSIONS_MAX = 4
BYTES_MAX = 2**31  # of the files of all kept models; a session takes about as much memory as its file

_kept: dict[UUID, tuple[InferenceSession, int]] = {}  # with the bytes of the file; what was used last stands last


def session_of(version: ModelVersion) -> InferenceSession:
    """Return the session of a version. Raises FileNotFoundError if the version was deleted, though its session may be kept."""
    if not versions_present().filter(pk=version.pk).exists():
        _kept.pop(version.pk, None)
        raise FileNotFoundError(f"The file of {version} was deleted.")
    found = _kept.pop(version.pk, None)
    if found is None:
        _room_make(version.size)
        found = _load(version), version.size
    _kept[version.pk] = found
    return found[0]


def _room_make(size: int) -> None:
    while _kept and (len(_kept) >= SESSIONS_MAX or size + sum(held for _, held in _kept.values()) > BYTES_MAX):
        del _kept[next(iter(_kept))]


def _load(version: ModelVersion) -> InferenceSession:
    # The runtime keeps side files mapped when they are deleted.
    with work_file() as path:
        modelversion_save(version, path)
        return session_open(model_unpack(path, bytes_max=settings.UPLOAD_BYTES_MAX))
