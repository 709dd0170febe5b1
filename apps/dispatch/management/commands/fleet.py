"""`manage.py fleet`: export, check, compare, apply or undo the whole fleet as one TOML file.

Exit status: 0 done, 1 refused, 2 invalid file.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.accounts.problems import Problem
from apps.dispatch.fleet import fleet_apply, fleet_preview, fleet_undo
from apps.fleet.current import document_now, document_parse
from apps.fleet.document import LARGEST, Document, write
from apps.fleet.models import FleetChange

LOGGED = 20


class Command(BaseCommand):
    help = "Export, check, compare, apply or undo the whole fleet as one TOML file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("export", help="write the current fleet to standard output")
        for name, said in (
            ("check", "check the file"),
            ("diff", "show what the file would change, and which reservations would move"),
            ("apply", "apply the file in one transaction"),
        ):
            action = actions.add_parser(name, help=said)
            action.add_argument("file", type=Path)
        actions.add_parser("undo", help="undo the last change")
        actions.add_parser("log", help=f"list the last {LOGGED} changes")

    def handle(self, *args: Any, **options: Any) -> None:
        action = options["action"]
        try:
            if action in {"check", "diff", "apply"}:
                getattr(self, f"_{action}")(_read(options["file"]))
            else:
                getattr(self, f"_{action}")()
        except Problem as problem:
            raise CommandError(problem.detail, returncode=2 if problem.kind == "fleet-file" else 1) from problem

    def _export(self) -> None:
        self.stdout.write(write(document_now()), ending="")

    def _check(self, document: Document) -> None:
        devices = sum(len(pool.devices) for pool in document.pools.values())
        said = f"{len(document.sites):,} sites, {len(document.pools):,} pools, {devices:,} devices"
        self.stdout.write(f"The file is valid: {said}; digest {document.digest}.")

    def _diff(self, document: Document) -> None:
        plan = fleet_preview(document=document, now=timezone.now())
        for change in plan.difference.changes:
            self.stdout.write(f"  {change.place} {change.verb}: {change.before or '-'} -> {change.after or '-'}")
        self.stdout.write(plan.sentence())
        plan.check()

    def _apply(self, document: Document) -> None:
        change = fleet_apply(document=document, actor=None, now=timezone.now(), note="manage.py fleet apply")
        self.stdout.write(f"Change {change.pk}: {change.summary}" if change else "No difference. Nothing changed.")

    def _undo(self) -> None:
        change = fleet_undo(actor=None, now=timezone.now())
        self.stdout.write(f"Undone: change {change.pk}, {change.summary}")

    def _log(self) -> None:
        for change in FleetChange.objects.select_related("actor").order_by("-id")[:LOGGED]:
            who = change.actor.email if change.actor else "the command line"
            undone = f" (undone {change.undone_at:%Y-%m-%d %H:%M} UTC)" if change.undone_at else ""
            self.stdout.write(f"{change.pk} {change.at:%Y-%m-%d %H:%M} UTC by {who}: {change.summary}{undone}")


def _read(path: Path) -> Document:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        detail = f"The file {path} cannot be read: {error.strerror}. Give the path of a fleet file."
        raise Problem(422, "The fleet file cannot be read", detail, kind="fleet-file") from error
    return document_parse(data)
