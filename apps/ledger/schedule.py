"""What the scheduler does for the ledger. Hourly and repeatable, so that a night without power delays and never skips."""

SCHEDULE = {
    "ledger-store-roots": {
        "task": "apps.ledger.tasks.store_roots",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
    "ledger-expire-holds": {
        "task": "apps.ledger.tasks.expire_holds",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
}
