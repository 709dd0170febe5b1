"""What the scheduler does for the billing room. Invoices hourly: a night without power delays and never skips."""

SCHEDULE = {
    "month-invoices": {
        "task": "apps.billing.tasks.month_invoices",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
    "outbox-deliver": {
        "task": "apps.billing.tasks.outbox_deliver",
        "schedule": 2.0,
        "options": {"queue": "default", "expires": 2},
    },
    "dunning": {
        "task": "apps.billing.tasks.dunning",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
    "stripe-tend": {
        "task": "apps.billing.tasks.stripe_tend",
        "schedule": 60.0,
        "options": {"queue": "default", "expires": 60},
    },
    "stripe-check": {
        "task": "apps.billing.tasks.stripe_check",
        "schedule": 6 * 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
    "webhooks-send": {
        "task": "apps.billing.tasks.webhooks_send",
        "schedule": 3.0,
        "options": {"queue": "default", "expires": 3},
    },
    "credits": {
        "task": "apps.billing.tasks.credits_tend",
        "schedule": 600.0,
        "options": {"queue": "default", "expires": 600},
    },
}
