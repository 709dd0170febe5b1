"""Settings for the demo: sample data, and visits without an account."""

from django.core.exceptions import ImproperlyConfigured

from apps.config import env
from apps.config.settings.core import IS_PUBLIC

# `make run` then makes a month of sample data in the background, once.
DEMO_MONTH = env.flag("DEMO_MONTH", default=not IS_PUBLIC)
if DEMO_MONTH and IS_PUBLIC:
    raise ImproperlyConfigured(
        "DEMO_MONTH=1 creates sample data, which must not be on a site that others can reach. Remove it."
    )
# The landing page then opens the organisation with the sample data to everybody, to read.
DEMO_VISITORS = env.flag("DEMO_VISITORS", default=not IS_PUBLIC)
