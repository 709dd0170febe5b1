"""The Celery application. A worker needs only DATABASE_URL, REDIS_URL and a storage URL."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.config.settings")
# Django's checks are made before a release (`make test`). Here they would import every page: a third of a worker's start.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("takt")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
