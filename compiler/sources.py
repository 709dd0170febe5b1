"""Which compiler this is, to the last character of its files."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path


def version_name(version: str) -> str:
    """The version with the first digits of the files' digest: what a program was compiled by, as documents state it."""
    return f"{version}+{sources_digest()[:12]}"


@lru_cache(maxsize=1)
def sources_digest() -> str:
    """SHA-256 over the compiler's own files: a compiler that was changed is another one, whatever it calls itself."""
    root = Path(__file__).parent
    found = sorted(path for pattern in ("*.py", "*.toml") for path in root.rglob(pattern))
    digest = hashlib.sha256()
    for path in found:
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()
