"""What beat asks of compilation."""

SCHEDULE = {
    "compiles-sweep": {"task": "apps.compilation.tasks.jobs_sweep", "schedule": 5.0, "options": {"queue": "default"}},
}
