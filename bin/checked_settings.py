"""The site's settings for checks that connect to nothing, so that `mypy` alone works in a fresh checkout."""

import os

NOWHERE = {
    "DATABASE_URL": "postgres://app@%2Fnowhere/takt",
    "REDIS_URL": "redis+socket:///nowhere",
    "SECRET_KEY": "lint",
}
for name, value in NOWHERE.items():
    os.environ.setdefault(name, value)

from apps.config.settings import *  # noqa: E402, F403 - the settings read the environment
