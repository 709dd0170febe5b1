#!/usr/bin/env python
"""Django's own entry point. `python3 bin/dev.py manage ...` runs it against the servers under var/."""

import os
import secrets
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import OperationalError

UNREACHED = ("connection to server", "could not translate host name")  # how libpq begins when it reaches no server

if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        # A worker signs nothing that another process reads, so that another host needs only the servers' addresses.
        os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(50))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.config.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(str(error))
    except OperationalError as error:
        if not str(error).startswith(UNREACHED):
            raise
        sys.exit(f"The database that DATABASE_URL names cannot be used: {str(error).splitlines()[0]}.")
