"""What the scheduler does for the accounts room."""

SCHEDULE = {
    "mails-send": {
        "task": "apps.accounts.tasks.mails_send",
        "schedule": 15.0,
        "options": {"queue": "mail", "expires": 15},
    },
}
