"""The ledger's chain, checked on the customer's machine from a file alone."""

from __future__ import annotations

import copy
import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from apps.cli.main import RIGHT, UNUSABLE, WRONG, main
from apps.ledger.models import Transaction, UsageRow
from apps.ledger.services import hold_release
from apps.pricing.rating import decimal_text
from tests.cast import Cast
from tests.ledger.money import NOW, held, used

pytestmark = pytest.mark.django_db


@pytest.fixture
def chain(cast: Cast) -> dict[str, Any]:
    """A hold, three leases and a release, in the form that the portal hands out."""
    hold = held(cast.organisation)
    for executions in (2, 3, 1):
        used(hold, executions)
    hold_release(contract_id=hold.contract_id, now=NOW)
    rows = {row.transaction_id: row for row in UsageRow.objects.all()}
    transactions = []
    for item in Transaction.objects.order_by("sequence").prefetch_related("entries__account"):
        entries = {
            f"{entry.account.kind} {entry.account.currency}": decimal_text(entry.amount) for entry in item.entries.all()
        }
        usage = rows.get(item.id)
        transactions.append({
            "sequence": item.sequence, "kind": item.kind, "key": item.idempotency_key, "subject": item.subject,
            "detail": item.detail, "at": item.at.astimezone(UTC).isoformat(timespec="microseconds"), "entries": entries,
            "previous": item.previous_hash, "hash": item.hash,
            **({"usages": [[usage.idempotency_key, usage.payload_digest]]} if usage else {}),
        })  # fmt: skip
    last = transactions[-1]
    return {
        "format": "takt-chain/1", "organisation": str(cast.organisation.id), "transactions": transactions,
        "roots": [{"day": "2026-11-20", "sequence": last["sequence"], "hash": last["hash"]}],
    }  # fmt: skip


def _run(folder: Path, document: dict[str, Any]) -> int:
    path = folder / "chain.json"
    path.write_text(json.dumps(document))
    return main(["verify", "--chain", str(path)])


def test_an_untouched_chain_is_verified(
    chain: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, chain) == RIGHT
    said = capsys.readouterr().out
    assert "5 transactions" in said
    assert "3 usage rows" in said


def _spoil_amount(document: dict[str, Any]) -> None:
    entries = document["transactions"][2]["entries"]
    for name, amount in entries.items():
        entries[name] = amount.replace("0.0", "0.1", 1)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_spoil_amount, "transaction 3"),
        (lambda d: d["transactions"][1]["usages"][0].__setitem__(1, "0" * 64), "transaction 2"),
        (lambda d: d["transactions"][3]["detail"].update(usage="0" * 64), "transaction 4"),
        (lambda d: d["transactions"].pop(1), "transaction 2"),
        (lambda d: d["transactions"][0].update(subject="another"), "transaction 1"),
        (lambda d: d["roots"][0].update(hash="0" * 64), "root of 2026-11-20"),
        (lambda d: d["transactions"].pop(), "root of 2026-11-20"),
        (lambda d: d["transactions"][0]["entries"].update({"wallet EUR": "1"}), "sum of its entries in EUR"),
    ],
)
def test_the_first_row_that_was_changed_is_named(
    chain: dict[str, Any], tmp_path: Path, spoil: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = copy.deepcopy(chain)
    spoil(changed)
    assert _run(tmp_path, changed) == WRONG
    assert said in capsys.readouterr().out


def test_what_is_no_chain_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for document in ({}, {"format": "takt-chain/1"}, {"format": "takt-chain/1", "transactions": [{}], "roots": []}):
        assert _run(tmp_path, document) == UNUSABLE
    assert main(["verify"]) == UNUSABLE
    assert "Name the invoice or quote" in capsys.readouterr().err
