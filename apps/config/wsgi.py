import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.config.settings")

application = get_wsgi_application()
get_resolver().url_patterns  # noqa: B018 - imports every page once, before the web's processes part, not at a first request
# What is loaded lives as long as the process: the collector need not look at it in the middle of a request, and the web's
# processes go on sharing its memory.
gc.collect()
gc.freeze()
