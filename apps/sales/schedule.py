"""The periodic tasks of sales."""

SCHEDULE = {
    "contracts-close": {
        "task": "apps.sales.tasks.contracts_close",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 10},
    },
    "plan-holds-end": {
        "task": "apps.sales.tasks.plan_holds_end",
        "schedule": 20.0,
        "options": {"queue": "default", "expires": 20},
    },
    "contracts-review": {
        "task": "apps.sales.tasks.contracts_review",
        "schedule": 600.0,
        "options": {"queue": "default", "expires": 600},
    },
    "standing-sweep": {
        "task": "apps.sales.tasks.standing_sweep",
        "schedule": 60.0,
        "options": {"queue": "default", "expires": 60},
    },
}
