"""What the scheduler does for the sales room."""

SCHEDULE = {
    "contracts-close": {
        "task": "apps.sales.tasks.contracts_close",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 10},
    },
}
