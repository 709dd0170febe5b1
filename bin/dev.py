"""The project's commands, with nothing but the standard library: `python3 bin/dev.py COMMAND`.

Every command first brings `.venv`, `node_modules` and `static/vendor` up to date; a stamp skips what has not changed.
This one file must be readable by every Python that may be called `python`, 2.7 too: no annotation, no f-string.
"""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this is where an old one is told
    sys.stderr.write(
        "Takt needs Python 3.11 or newer; this is %d.%d. Try: python3.11 bin/dev.py run\n"  # noqa: UP031
        % sys.version_info[:2]
    )
    sys.exit(1)

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 - older than pathlib

from bin.entry import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
