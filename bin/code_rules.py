"""Rules of this codebase that no other tool checks: `python -m bin.code_rules`, part of `make lint`.

- No function of `apps/`, `bin/`, `compiler/` or `takt/` has a cyclomatic complexity above 12, as radon counts it.
- A comment that switches the formatter off gives a reason: `# fmt: skip  # aligned with the table of the paper`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from radon.complexity import cc_visit
from radon.visitors import Class

ROOT = Path(__file__).resolve().parent.parent
COMPLEXITY_MAX = 12
CHECKED_FOLDERS = ("apps", "bin", "compiler", "takt")
_SWITCH = re.compile(r"#\s*fmt:\s*(?:skip|off)(?P<reason>.*)")


def main() -> int:
    """Print every fault; the exit status is 1 if there is one."""
    faults = [fault for path in source_files() for fault in faults_of(path.relative_to(ROOT), path.read_text("utf-8"))]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def source_files() -> list[Path]:
    """Return the Python files of the repository, also those that are not added yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    try:
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
        paths = [ROOT / name for name in names if name]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive has no history
        paths = [path for folder in CHECKED_FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in paths if path.is_file())


def faults_of(path: Path, source: str) -> Iterator[str]:
    """Yield one sentence for each rule that a file breaks. `path` is relative to the repository."""
    for number, line in enumerate(source.splitlines(), start=1):
        switch = _SWITCH.search(line)
        if switch and not switch["reason"].strip(" #-:"):
            yield f"{path}:{number}: the formatter is switched off without a reason; write one after the comment"
    if path.parts[0] in CHECKED_FOLDERS:
        yield from _complex_functions(path, source)


def _complex_functions(path: Path, source: str) -> Iterator[str]:
    module = ".".join(path.with_suffix("").parts)
    functions = [block for block in cc_visit(source) if not isinstance(block, Class)]
    for function in functions:
        for one in (function, *function.closures):
            if one.complexity > COMPLEXITY_MAX:
                said = f"{module}.{one.fullname} has a complexity of {one.complexity}; the limit is {COMPLEXITY_MAX}"
                yield f"{path}:{one.lineno}: {said}"


if __name__ == "__main__":
    sys.exit(main())
