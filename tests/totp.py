"""What an authenticator app shows: RFC 6238 with its defaults, written apart from the library that checks it."""

from __future__ import annotations

import hmac
import time
from base64 import b32decode
from struct import pack, unpack


def code_of(secret: str, step: int = 0) -> str:
    """The six digits of this half minute, or of one `step` later."""
    counter = pack(">Q", int(time.time()) // 30 + step)
    digest = hmac.digest(b32decode(secret), counter, "sha1")
    at = digest[-1] & 15
    return f"{(unpack('>I', digest[at : at + 4])[0] & 0x7FFFFFFF) % 10**6:06}"
