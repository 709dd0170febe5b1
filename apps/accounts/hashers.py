"""How passwords are hashed."""

from __future__ import annotations

from django.contrib.auth import hashers


class Argon2id(hashers.Argon2PasswordHasher):
    """Argon2id with 19 MiB and two passes, the OWASP Password Storage Cheat Sheet's first choice.

    One try takes some 30 ms of a processor where PBKDF2 took 300: somebody who guesses passwords keeps no page waiting, and
    pays more for each guess at stolen hashes, since memory cannot be shared between them.
    """

    time_cost = 2
    memory_cost = 19 * 1024  # KiB
    parallelism = 1
