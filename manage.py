#!/usr/bin/env python
"""Django's own entry point. `python3 bin/dev.py manage ...` runs it against the servers under var/."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.config.settings")
    execute_from_command_line(sys.argv)
