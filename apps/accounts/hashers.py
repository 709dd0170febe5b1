"""The password hasher."""

from __future__ import annotations

from django.contrib.auth import hashers


class Argon2id(hashers.Argon2PasswordHasher):
    """Argon2id with 19 MiB and two passes, the first choice of the OWASP Password Storage Cheat Sheet.

    One attempt takes about 30 ms of processor time (PBKDF2: 300 ms), so that password guessing does not slow the pages
    down. Each guess at a stolen hash needs the full 19 MiB.
    """

    time_cost = 2
    memory_cost = 19 * 1024  # KiB
    parallelism = 1
