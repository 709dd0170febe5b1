# Each target only calls the script, so that everything works without make too.
PYTHON ?= python3

.PHONY: run test screens setup lint lock audit

run test screens setup lint lock audit:
	@$(PYTHON) bin/dev.py $@
