"""The periodic tasks of the compilation app."""

SCHEDULE = {
    "compiles-sweep": {"task": "apps.compilation.tasks.jobs_sweep", "schedule": 5.0, "options": {"queue": "default"}},
    "compilation-files": {
        "task": "apps.compilation.tasks.files_sweep",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3600},
    },
}
