"""The password hasher."""

from __future__ import annotations

from django.contrib.auth import hashers


class Argon2id(hashers.Argon2PasswordHasher):
    """Argon2id with 19 MiB and two passes (OWASP Password Storage Cheat Sheet)."""

    time_cost = 2
    memory_cost = 19 * 1024  # KiB
    parallelism = 1
