"""What beat asks of the registry."""

SCHEDULE = {
    "uploads-sweep": {"task": "apps.registry.tasks.uploads_sweep", "schedule": 600.0, "options": {"queue": "default"}},
}
