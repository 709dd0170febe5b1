"""Settings for structured logs: JSON lines in production, readable lines on a terminal."""

from typing import Any

import structlog

from apps.config import env
from apps.config.redacting import redact

LOG_FORMAT = env.choice("LOG_FORMAT", "json", {"json", "text"})
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", {"DEBUG", "INFO", "WARNING", "ERROR"})

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
_FINAL: Any = (
    structlog.processors.JSONRenderer() if LOG_FORMAT == "json" else structlog.dev.ConsoleRenderer(colors=False)
)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "structured": {
            "()": structlog.stdlib.ProcessorFormatter,
            "foreign_pre_chain": [*_SHARED, structlog.stdlib.ExtraAdder()],
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                redact,
                _FINAL,
            ],
        }
    },
    "handlers": {"terminal": {"class": "logging.StreamHandler", "formatter": "structured"}},
    "root": {"handlers": ["terminal"], "level": LOG_LEVEL},
    "loggers": {
        "django.server": {"handlers": ["terminal"], "level": "WARNING", "propagate": False},
    },
}

structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        *_SHARED,
        structlog.processors.StackInfoRenderer(),
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
