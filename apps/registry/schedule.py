"""Periodic tasks of the registry."""

SCHEDULE = {
    "uploads-sweep": {"task": "apps.registry.tasks.uploads_sweep", "schedule": 600.0, "options": {"queue": "default"}},
    "checks-sweep": {
        "task": "apps.registry.tasks.checks_sweep",
        "schedule": 5.0,
        "options": {"queue": "default", "expires": 5.0},
    },
    "registry-files": {
        "task": "apps.registry.tasks.files_sweep",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
}
