"""The ledger's periodic tasks, which run hourly and are safe to repeat."""

from celery.schedules import crontab

SCHEDULE = {
    "ledger-store-roots": {
        "task": "apps.ledger.tasks.store_roots",
        "schedule": crontab(minute="2"),  # UTC: two minutes after the day, and every hour
        "options": {"queue": "default", "expires": 3600},
    },
    "ledger-expire-holds": {
        "task": "apps.ledger.tasks.expire_holds",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
}
