"""Where targets are found: those that ship with the compiler, files on a search path, files that were named outright.

A program names its target and the digest of the file's content, so a processor of one's own may have any name: it is found
by its digest when its file was read in this process, or by its name in the folders of ``TAKT_TARGETS``.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

from compiler.errors import Hint, ModelError
from compiler.targets.loader import NAME, Target, parse

HERE = Path(__file__).resolve().parent
SEARCH_PATH: Final = "TAKT_TARGETS"
LARGEST: Final = 1 << 20  # bytes of a target file
KEPT: Final = 64  # processors read from files that are remembered by digest
_read: dict[str, Target] = {}


def names() -> list[str]:
    """Targets that ship with the compiler, sorted."""
    return sorted(path.stem for path in HERE.glob("*.toml"))


def text(name: str) -> str:
    """The file of a shipped target as it stands, comments and sources included."""
    if name not in names():
        raise ModelError(f"there is no target {name!r}; known targets: {', '.join(names())}")
    return (HERE / f"{name}.toml").read_text(encoding="utf-8")


def template(name: str) -> str:
    """A commented file of a processor of that name, with every figure that a file can have."""
    return (HERE / "template" / "chip.toml").read_text(encoding="utf-8").replace('"chip"', f'"{name}"', 1)


def load(name: str) -> Target:
    """The target of that name: a shipped one, or ``name.toml`` on the search path; ``ModelError`` lists the shipped ones."""
    if name in names():
        return _shipped(name)
    path = _on_path(name)
    if path is not None:
        return _named(path, name)
    raise ModelError(
        f"there is no target {name!r}; known targets: {', '.join(names())}; one of your own is given by its file",
        hint=Hint("target", "./chip.toml"),
    )


def _on_path(name: str) -> Path | None:
    """The file of a target in the folders of ``TAKT_TARGETS``."""
    if NAME.fullmatch(name):
        for folder in filter(None, os.environ.get(SEARCH_PATH, "").split(os.pathsep)):
            path = Path(folder) / f"{name}.toml"
            if path.is_file():
                return path
    return None


@lru_cache(maxsize=16)
def _shipped(name: str) -> Target:
    return _named(HERE / f"{name}.toml", name)


def _named(path: Path, name: str) -> Target:
    target = read(path)
    if target.name != name:
        raise ModelError(f"target file {path} says that its name is {target.name!r}; it must have that of the file")
    return target


def read(path: str | os.PathLike[str]) -> Target:
    """The target in a file, which programs that name it find from now on. ``ModelError`` says what is wrong with it."""
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST:
            raise ModelError(f"target file {file} is larger than {LARGEST} bytes; it is no description of a processor")
        text = file.read_text(encoding="utf-8-sig")  # as some editors begin a file
    except UnicodeDecodeError:
        raise ModelError(f"target file {file} is not UTF-8 text") from None
    except FileNotFoundError:
        raise ModelError(f"there is no target file {file}; shipped are, by name, {', '.join(names())}") from None
    except (OSError, ValueError) as error:  # a path with a null character is a ValueError
        raise ModelError(f"target file {file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return register(parse(text))
    except ModelError as error:
        raise ModelError(f"{file}: {error.message}", problems=error.problems) from None


def register(target: Target) -> Target:
    """Let programs that were compiled for this description find it by its digest; answers the target."""
    _read.pop(target.digest, None)
    _read[target.digest] = target
    while len(_read) > KEPT:
        del _read[next(iter(_read))]
    return target


def resolve(target: str | os.PathLike[str] | Target) -> Target:
    """A target as people give it: the object itself, a name, or the path of a file (with a separator or ``.toml``)."""
    if isinstance(target, Target):
        return register(target)
    if isinstance(target, os.PathLike):
        return read(target)
    if not isinstance(target, str):
        raise ModelError(
            f"a target is a name, the path of a file, or what targets.read gives, not {type(target).__name__}"
        )
    return read(target) if is_path(target) else load(target)


def ships(digest: str) -> bool:
    """Whether the description of this digest is one that the compiler comes with."""
    return any(_shipped(name).digest == digest for name in names())


def is_path(target: str) -> bool:
    """Whether people mean a file by this, and not a name."""
    return target.endswith(".toml") or os.sep in target or "/" in target


def find(name: str, digest: str, given: str | Target | None = None) -> Target:
    """The target that a program was compiled for: ``given`` outright (for this once), else by the digest of its description, else
    by name.

    ``ModelError`` when there is none, or when it is another than the program was compiled for.
    """
    known = _read.get(digest)
    if given is not None:
        found = given if isinstance(given, Target) else resolve(given)
    elif known is not None and known.name == name:
        found = known
    else:
        found = _of_program(name)
    if found.digest != digest:
        raise ModelError(
            f"the program was compiled for another description of {name} (digest {digest[:12]}) than is "
            f"{'given' if given is not None else 'found'} here ({found.name}, digest {found.digest[:12]}); compile the model "
            "again, or give the file for which it was compiled",
            hint=Hint("target", f"{name}.toml"),
        )
    return found


def _of_program(name: str) -> Target:
    if name in names() or _on_path(name) is not None:
        return load(name)
    raise ModelError(
        f"there is no target {name!r}, for which the program was compiled: it does not ship with the compiler; put its file "
        f"into a folder that {SEARCH_PATH} names, or give it",
        hint=Hint("target", f"{name}.toml"),
    )
