"""The periodic tasks of dispatch. A message that expires is dropped, because the next message starts the same work."""

SCHEDULE = {
    "dispatch-offer-due": {
        "task": "apps.dispatch.tasks.offer_due",
        "schedule": 1.0,
        "options": {"queue": "dispatch", "expires": 1.0},
    },
    "dispatch-sweep": {
        "task": "apps.dispatch.tasks.sweep",
        "schedule": 5.0,
        "options": {"queue": "dispatch", "expires": 5.0},
    },
    "dispatch-evaluations": {
        "task": "apps.dispatch.tasks.evaluations_take_up",
        "schedule": 3.0,
        "options": {"queue": "dispatch", "expires": 3.0},
    },
    "dispatch-measure-due": {
        "task": "apps.dispatch.tasks.measure_due",
        "schedule": 5.0,
        "options": {"queue": "dispatch", "expires": 5.0},
    },
    "dispatch-files": {
        "task": "apps.dispatch.tasks.files_sweep",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
}
