"""One month by real leases of compiled programs, read back from pages, papers and files: `python -m benchmarks.month [ITEMS]`.

All sample models; for each of them a batch contract used up, a priority contract served partly too late on this machine's
own CPU, and a quota; one block is missed and credited. Prints what was compared and the headlines; ends with status 1 at the
first figure that reads otherwise in one place than in another. With `--keep FOLDER` the invoice, the price book and the
models stay there for `takt verify` (benchmarks.offline does that).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.private import house

MODELS = ("digits-small", "digits-large")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.month")
    parser.add_argument("items", type=int, nargs="?", default=96, help="executions bought by each contract")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        keep = options.keep or Path(folder)
        keep.mkdir(parents=True, exist_ok=True)
        with house():
            _month(options.items, keep)
    return 0


def _month(items: int, folder: Path) -> None:
    from django.test.utils import setup_test_environment

    from apps.invoicing.reconciliation import reconcile_all
    from tests.cast import assemble
    from tests.dispatch.real import ROOT
    from tests.money.month import month_read, month_run

    setup_test_environment()  # the client's host name is known, letters stay here
    cast = assemble()
    month = month_run(cast, items=items, models=MODELS)
    totals = month_read(month, folder)
    for model in MODELS:
        shutil.copy(ROOT / "samples" / f"{model}.onnx", folder)
    document = month.invoice.document
    leases = sum(len(line["usage"]) for line in document["lines"])
    classes = sorted({line["rating"]["terms"]["klass"] for line in document["lines"]})
    print(
        f"{len(month.contracts)} contracts ({', '.join(classes)}), {leases} leases executed, {len(document['lines'])} lines, "
        f"{len(document['adjustments'])} credits, {sum('downgrade' in line for line in document['lines'])} served below class"
    )
    print("  " + ", ".join(f"{name} {amount} EUR" for name, amount in totals.items()))
    print("  quote page, PDF and CSV, contract page, portal, invoice page, PDF, CSV, JSON, API and cost export agree")
    differences = reconcile_all(cast.organisation).differences
    print(f"  reconciliation: {len(differences)} differences")
    assert not differences


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
