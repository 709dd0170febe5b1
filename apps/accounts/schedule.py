"""The periodic tasks of the accounts app."""

SCHEDULE = {
    "mails-send": {
        "task": "apps.accounts.tasks.mails_send",
        "schedule": 15.0,
        "options": {"queue": "mail", "expires": 15},
    },
}
