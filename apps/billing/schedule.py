"""What the scheduler does for the billing room. Hourly, so that a night without power delays and never skips."""

SCHEDULE = {
    "month-invoices": {
        "task": "apps.billing.tasks.month_invoices",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
}
