"""Verifies every organisation's ledger, and every file named in the database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from django.core.files.storage import default_storage
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.accounts.models import Organisation
from apps.cli.agreement import Difference
from apps.cli.chain import chain_verify
from apps.compilation.models import CompileJob, Program
from apps.dispatch.models import Job, Lease
from apps.ledger.chain import chain_json
from apps.registry.models import ModelVersion
from apps.reports.reconciling import organisation_compare


class Command(BaseCommand):
    help = (
        "Verify every organisation's ledger chain, reconcile its accounts, and check that every file exists. Run this command "
        "after a restore."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        faults: list[str] = []
        transactions = 0
        for organisation in Organisation.objects.order_by("slug"):
            document = json.loads("".join(chain_json(organisation.id, now=timezone.now())))
            transactions += len(document["transactions"])
            try:
                chain_verify(document)
            except Difference as difference:
                faults.append(f"{organisation.slug}: {difference}")
            faults += [f"{organisation.slug}: {one}" for one in organisation_compare(organisation).differences]
        files, missing = _files()
        for fault in [*faults, *missing]:
            self.stderr.write(fault)
        self.stdout.write(
            f"{Organisation.objects.count()} organisations, {transactions:,} transactions, {len(faults)} differences; "
            f"{files:,} files, {len(missing)} missing or altered"
        )
        if faults or missing:
            raise CommandError("The stored data failed the check.")


def _files() -> tuple[int, list[str]]:
    count, faults = 0, []
    for what, key, digest in _named():
        count += 1
        if not default_storage.exists(key):
            faults.append(f"{what}: its file {key} is missing")
        elif digest and _digest(key) != digest:
            faults.append(f"{what}: its file {key} is another")
    return count, faults


def _named() -> Iterator[tuple[str, str, str]]:
    for version, key, digest in ModelVersion.objects.filter(deleted_at=None).values_list("pk", "storage_key", "sha256"):
        yield f"model version {version}", key, digest
    for program, binary, report, digest in Program.objects.values_list("pk", "binary_key", "report_key", "digest"):
        yield f"program {program}", binary, digest
        yield f"report of program {program}", report, ""
    for model, name in (
        (CompileJob, "calibration_key"),
        (Job, "inputs_key"),
        (Job, "outputs_key"),
        (Lease, "outputs_key"),
    ):
        for pk, key in model._default_manager.exclude(**{name: ""}).values_list("pk", name):
            yield f"{model._meta.verbose_name} {pk}", key, ""


def _digest(key: str) -> str:
    with default_storage.open(key) as file:
        found = sha256()
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()
