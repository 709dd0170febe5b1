"""Makes the fixture of release 0.1.0 (commit 91c21eb). It runs in a checkout of that commit, not in this one:

    git worktree add /tmp/takt-0.1.0 91c21eb && cd /tmp/takt-0.1.0 && python3 bin/dev.py setup
    .venv/bin/python THIS_FILE FOLDER

Everything is made by the services of that release at fixed instants: three months of one organisation that buys every form
of contract, and a second one that pays by card. FOLDER then holds the database, the storage, the documents that customers
downloaded, and `facts.json` with what each program computed. Ids, keys and secrets are new in every run and worth nothing.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))

from story import PRESENT, Story
from things import choosing_model


def main() -> None:
    """Make the fixture in the folder that the command line names."""
    from benchmarks.private import house

    folder = Path(sys.argv[1]).resolve()
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    with house():
        from django.conf import settings
        from django.test.utils import setup_test_environment

        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
        setup_test_environment()
        story = Story()
        story.tell()
        _documents(story, folder / "documents")
        _pack_storage(Path(settings.MEDIA_ROOT), folder / "storage.tar.gz")
        _dump(os.environ["DATABASE_URL"], folder / "database.sql.gz")


def _documents(story: Story, folder: Path) -> None:
    from apps.compilation.selectors import program_ranges
    from apps.invoicing.exports import invoice_json
    from apps.invoicing.models import Invoice
    from apps.invoicing.reconciliation import reconcile_all
    from apps.ledger.chain import chain_json
    from apps.pricing.models import PriceBook
    from apps.sales.exports import quote_json
    from apps.sales.models import Quote

    of = story.cast.organisation
    (folder / "choosing.onnx").write_bytes(choosing_model())
    shutil.copy("samples/digits-small.onnx", folder)
    (folder / "ranges.json").write_text(program_ranges(story.programs["small"]))
    for invoice in Invoice.objects.filter(organisation=of):
        (folder / f"{invoice.number}.json").write_text(invoice_json(invoice))
    (folder / "quote.json").write_text(quote_json(Quote.objects.get(pk=story.facts["quote"])))
    for book in PriceBook.objects.all():
        (folder / f"book-{book.version}.json").write_text(json.dumps(book.document))
    (folder / "chain.json").write_text("".join(chain_json(of.id, now=PRESENT)))
    for organisation in (of, story.cast.stranger_organisation):
        found = reconcile_all(organisation)
        assert found.differences == [], found.differences
    story.facts["organisation"] = str(of.pk)
    story.facts["card_organisation"] = str(story.cast.stranger_organisation.pk)
    (folder.parent / "facts.json").write_text(json.dumps(story.facts, indent=1, sort_keys=True) + "\n")


def _pack_storage(root: Path, to: Path) -> None:
    """The files of storage, in order and without times, so that the same files are the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                member = tarfile.TarInfo(str(path.relative_to(root)))
                member.size = path.stat().st_size
                with path.open("rb") as file:
                    archive.addfile(member, file)
    to.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def _dump(url: str, to: Path) -> None:
    """Plain SQL without owners and privileges: whoever restores it owns it."""
    from bin.services import _postgres_programs

    plain = subprocess.run(
        [_postgres_programs(None, None) / "pg_dump", "--no-owner", "--no-privileges", url],
        check=True,
        capture_output=True,
    ).stdout
    kept = [line for line in plain.splitlines(keepends=True) if not line.startswith((b"\\restrict", b"\\unrestrict"))]
    to.write_bytes(gzip.compress(b"".join(kept), mtime=0))


if __name__ == "__main__":
    main()
