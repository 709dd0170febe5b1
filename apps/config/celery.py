"""The Celery application. A worker needs nothing but DATABASE_URL, REDIS_URL and a storage URL."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.config.settings")

app = Celery("takt")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
