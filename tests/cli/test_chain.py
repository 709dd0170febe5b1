"""The ledger's chain, checked on the customer's machine from a file alone."""

from __future__ import annotations

import copy
import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from apps.cli.main import PARTLY, RIGHT, UNUSABLE, WRONG, main
from apps.ledger.chain import chain_json
from apps.ledger.models import Transaction, UsageRow
from apps.ledger.services import hold_release, usage_post_batch
from apps.ledger.usage import digest_and_leaves
from apps.pricing.rating import decimal_text
from tests.cast import Cast
from tests.ledger.money import NOW, held, usage, used

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
        transactions.append(
            {
                "sequence": item.sequence,
                "kind": item.kind,
                "key": item.idempotency_key,
                "subject": item.subject,
                "detail": item.detail,
                "at": item.at.astimezone(UTC).isoformat(timespec="microseconds"),
                "entries": entries,
                "previous": item.previous_hash,
                "hash": item.hash,
                **({"usages": [[usage.idempotency_key, usage.payload_digest]]} if usage else {}),
            }
        )
    last = transactions[-1]
    return {
        "format": "takt-chain/2",
        "organisation": str(cast.organisation.id),
        "transactions": transactions,
        "head": {"sequence": last["sequence"], "hash": last["hash"]},
        "today": None,
        "roots": [{"day": "2026-11-20", "sequence": last["sequence"], "hash": last["hash"]}],
    }


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


def test_a_file_of_the_older_form_is_read_and_says_what_it_cannot_tell(
    chain: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = {key: value for key, value in chain.items() if key not in {"head", "today"}} | {"format": "takt-chain/1"}
    assert _run(tmp_path, older) == PARTLY
    assert "download the chain again" in capsys.readouterr().out
    older["transactions"].pop()
    assert _run(tmp_path, older) == WRONG
    assert _run(tmp_path, older | {"format": "takt-chain/2"}) == UNUSABLE  # a form is not called another by itself


def _spoil_amount(document: dict[str, Any]) -> None:
    entries = document["transactions"][2]["entries"]
    for name, amount in entries.items():
        entries[name] = amount.replace("0.0", "0.1", 1)


def _cut(document: dict[str, Any]) -> None:
    """Take the end away, and the head with it."""
    document["transactions"].pop()
    last = document["transactions"][-1]
    document["head"] = {"sequence": last["sequence"], "hash": last["hash"]}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_spoil_amount, "transaction 3"),
        (lambda d: d["transactions"][1]["usages"][0].__setitem__(1, "0" * 64), "transaction 2"),
        (lambda d: d["transactions"][3]["detail"].update(usage="0" * 64), "transaction 4"),
        (lambda d: d["transactions"].pop(1), "transaction 2"),
        (lambda d: d["transactions"][0].update(subject="another"), "transaction 1"),
        (lambda d: d["roots"][0].update(hash="0" * 64), "root of 2026-11-20"),
        (lambda d: d["transactions"].pop(), "transaction 5, which the chain's head names"),
        (lambda d: d["head"].update(hash="0" * 64), "transaction 5, which the chain's head names"),
        (_cut, "root of 2026-11-20, hash of transaction 5"),
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


@pytest.fixture
def batch(cast: Cast) -> dict[str, Any]:
    """Five leases posted at once, as the document that the product hands out."""
    hold = held(cast.organisation)
    usage_post_batch([usage(hold, key=f"lease:{number}", cycles=number) for number in range(5)], now=NOW)
    document: dict[str, Any] = json.loads("".join(chain_json(cast.organisation.id, now=NOW)))
    return document


def _rows(document: dict[str, Any]) -> list[list[str]]:
    rows: list[list[str]] = document["transactions"][1]["usages"]
    return rows


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda rows: rows[3].__setitem__(1, "0" * 64), "usage row lease:3 (altered"),
        (lambda rows: rows[1].__setitem__(0, "lease:9"), "usage row lease:9 (altered"),
        (lambda rows: rows[0].__setitem__(1, rows[4][1]), "usage row lease:0 (altered"),
        (lambda rows: rows.append(["lease:7", "0" * 64]), "usage row lease:7 (altered, or added)"),
        (lambda rows: rows.append(list(rows[2])), "digest of its usage rows"),
        (lambda rows: rows.pop(2), "row 3 of 5 in the order of keys"),
        (lambda rows: rows.clear(), "row 1 of 5 in the order of keys"),
    ],
)
def test_the_one_row_of_a_batch_that_was_altered_is_named(
    batch: dict[str, Any], tmp_path: Path, spoil: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, batch) == RIGHT
    spoil(_rows(batch))
    assert _run(tmp_path, batch) == WRONG
    assert said in capsys.readouterr().out


def test_a_leaf_cannot_be_altered_together_with_its_row(
    batch: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = _rows(batch)[3]
    row[1] = "0" * 64
    batch["transactions"][1]["detail"]["leaves"] = digest_and_leaves((key, digest) for key, digest in _rows(batch))[1]
    assert _run(tmp_path, batch) == WRONG
    assert "transaction 2" in (said := capsys.readouterr().out)
    assert ", hash" in said


def test_what_is_no_chain_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for document in ({}, {"format": "takt-chain/1"}, {"format": "takt-chain/1", "transactions": [{}], "roots": []}):
        assert _run(tmp_path, document) == UNUSABLE
    assert main(["verify"]) == UNUSABLE
    assert "Give an invoice or a quote" in capsys.readouterr().err
