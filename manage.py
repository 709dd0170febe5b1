#!/usr/bin/env python
"""Django's own entry point. `python3 bin/dev.py manage ...` runs it against the servers under var/."""

import os
import secrets
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        # A worker signs nothing that another process reads, so that another host needs only the servers' addresses.
        os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(50))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.config.settings")
    execute_from_command_line(sys.argv)
