"""Periodic tasks of reports."""

from celery.schedules import crontab

SCHEDULE = {
    "reconciliation-daily": {
        "task": "apps.reports.tasks.reconcile_daily",
        "schedule": 3600.0,
        "options": {"queue": "books", "expires": 3600},
    },
    "forecast-daily": {
        "task": "apps.reports.tasks.forecast_daily",
        "schedule": 3600.0,
        "options": {"queue": "books", "expires": 3600},
    },
    "reports-asked": {
        "task": "apps.reports.tasks.unfinished_sweep",
        "schedule": 10.0,
        "options": {"queue": "books", "expires": 10},
    },
    "capacity-plan-nightly": {
        "task": "apps.reports.tasks.capacity_plan_nightly",
        "schedule": crontab(hour="1,2,3", minute="40"),
        "options": {"queue": "books", "expires": 3600},
    },
    "capacity-controller": {
        "task": "apps.reports.tasks.controller",
        "schedule": 3600.0,
        "options": {"queue": "books", "expires": 3600},
    },
}
