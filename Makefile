# Each target only calls the script, so that everything works without make too.
PYTHON ?= python3

.PHONY: help run dev test test-all format lint typecheck rooms screens setup lock audit services

help run dev test test-all format lint typecheck rooms screens setup lock audit services:
	@$(PYTHON) bin/dev.py $@
