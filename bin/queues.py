"""The Celery queues beside those of the pools, and the worker of each.

`make run` and the browser tests start these; a test compares docker/compose.yaml with them. Each kind of work that may
wait for an outside party has its own queue, so that a slow receiver, mail server or model delays only its own kind. A
worker with threads is one process; work that computes has processes of its own.
"""

from __future__ import annotations

# More than WEBHOOK_CONCURRENCY (16), so that receivers that hang never keep the dispatcher waiting.
WEBHOOK_THREADS = 20

WORKERS: dict[str, tuple[str, ...]] = {
    "default": ("-c", "1"),  # short periodic work and invoicing
    "books": ("-c", "1"),  # checks of whole histories, which take minutes
    "dispatch": ("-c", "1"),  # offers leases and moves jobs on
    "compile": ("-c", "1"),
    "check": ("-P", "threads", "-c", "2"),  # each check is a child process; one organisation has one at a time
    "webhooks": ("-P", "threads", "-c", str(WEBHOOK_THREADS)),  # deliveries to customers' own addresses
    "mail": ("-P", "threads", "-c", "1"),
    "stripe": ("-P", "threads", "-c", "1"),
}

# What web requests wait for in turn: as prompt as the web itself. All other workers run behind.
PROMPT = {"dispatch"}
