"""Settings for Celery, with Redis as the broker.

A task may be delivered more than once, so services claim their row by epoch before they start work (see
docs/operators/operating.md).

bin/queues.py defines one queue for each kind of work. Each pool also has a queue, named `pool-<slug>`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from apps.config import env
from apps.config.settings.core import ROOMS

CELERY_BROKER_URL, _ = env.redis_urls("REDIS_URL")
CELERY_RESULT_BACKEND = CELERY_BROKER_URL
CELERY_RESULT_EXPIRES = 3600
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_CREATE_MISSING_QUEUES = True
CELERY_TASK_SERIALIZER = CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A worker waits for its broker without a limit and retries every few seconds (apps/config/consuming.py).
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_WORKER_CONSUMER = "apps.config.consuming:PatientConsumer"
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": env.integer("VISIBILITY_SECONDS", 60, at_least=1),
    "socket_connect_timeout": 2,
    "socket_timeout": 10,  # a broker that hangs; beyond the second for which a worker waits for messages
}


def _beat_schedule() -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for room in ROOMS:
        if find_spec(f"apps.{room}.schedule"):
            merged.update(import_module(f"apps.{room}.schedule").SCHEDULE)
    return merged


CELERY_BEAT_SCHEDULE = _beat_schedule()
CELERY_BEAT_SCHEDULE_FILENAME = env.text("BEAT_FILE", "/tmp/takt-beat")  # noqa: S108 - a cache, rebuilt when missing

# How long a receiver of webhooks may take for its answer, and how many messages are on their way at the same time over
# all workers of the queue `webhooks`; bin/queues.py gives that worker more threads than this.
WEBHOOK_SECONDS = env.integer("WEBHOOK_SECONDS", 10, at_least=1)
WEBHOOK_CONCURRENCY = env.integer("WEBHOOK_CONCURRENCY", 16, at_least=2)
