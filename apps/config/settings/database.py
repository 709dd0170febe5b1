"""Settings for PostgreSQL and for the cache in Redis."""

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from apps.config import env

DATABASES = {
    "default": dj_database_url.parse(
        env.text("DATABASE_URL"),
        conn_max_age=env.integer("DATABASE_CONNECTION_SECONDS", 60),
        conn_health_checks=True,
    )
}
if DATABASES["default"].get("ENGINE") != "django.db.backends.postgresql":
    raise ImproperlyConfigured("DATABASE_URL must name a PostgreSQL server (postgres://...).")
# The server ends idle transactions after this time, so that a frozen process does not hold locks. 0: never.
_IDLE_SECONDS = env.integer("IDLE_TRANSACTION_SECONDS", 300)
if _IDLE_SECONDS:
    DATABASES["default"].setdefault("OPTIONS", {})["options"] = (
        f"-c idle_in_transaction_session_timeout={_IDLE_SECONDS}s"
    )

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_, REDIS_CLIENT_URL = env.redis_urls("REDIS_URL")
# No answer depends on the cache, so requests wait for it for one second at most.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_CLIENT_URL,
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
    }
}
