"""Checking the ledger's chain of hashes offline: every transaction follows from the one before it (T1).

The file is what the portal hands out: transactions in order, each with the hash of the one before, and the day's roots.
"""

from __future__ import annotations

import base64
import hashlib
from decimal import Decimal, InvalidOperation
from typing import Any

from apps.cli.agreement import Difference, Unreadable
from apps.pricing.rating import decimal_text, digest_of, exact_sum

CHAIN = "takt-chain/1"
FIRST = "0" * 64
_HASHED = ("previous", "sequence", "at", "kind", "key", "subject", "detail", "entries")


def chain_verify(document: dict[str, Any]) -> list[str]:
    """Sentences on what was checked. Raises Difference that names the first row that is not as it was, Unreadable."""
    if document.get("format") != CHAIN:
        raise Unreadable(f"The document's format is {document.get('format')!r}; this command reads {CHAIN}.")
    try:
        return _verify(document)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if isinstance(error, Difference | Unreadable):
            raise
        raise Unreadable(f"The chain lacks something that a {CHAIN} has: {error!r}.") from error
    except InvalidOperation as error:
        raise Unreadable("The chain holds an amount that is not a number.") from error


def _verify(document: dict[str, Any]) -> list[str]:
    organisation = document["organisation"]
    hashes: dict[int, str] = {}
    last, usages = FIRST, 0
    for number, item in enumerate(document["transactions"], 1):
        place = f"transaction {number} ({item['key']})"
        _same(f"{place}, sequence", item["sequence"], number)
        _same(f"{place}, hash of the one before", item["previous"], last)
        _entries(place, item["entries"])
        computed = digest_of({"organisation": organisation, **{name: item[name] for name in _HASHED}})
        _same(f"{place}, hash", item["hash"], computed)
        usages += _usages(place, item)  # by a detail that the hash has vouched for
        hashes[number] = last = computed
    for root in document["roots"]:
        found = hashes.get(root["sequence"])
        _same(f"root of {root['day']}, hash of transaction {root['sequence']}", root["hash"], found)
    told = f"{len(hashes):,} transactions of organisation {organisation} follow each other, each sums to zero; last: {last}"
    return [told, f"{usages:,} usage rows are bound to them, {len(document['roots']):,} day roots are theirs"]


def _entries(place: str, entries: dict[str, str]) -> None:
    by_currency: dict[str, list[Decimal]] = {}
    for account, amount in entries.items():
        by_currency.setdefault(account.rpartition(" ")[2], []).append(Decimal(amount))
    for currency, amounts in by_currency.items():
        _same(f"{place}, sum of its entries in {currency}", decimal_text(exact_sum(amounts)), "0")


def _usages(place: str, item: dict[str, Any]) -> int:
    """A transaction of usage commits to its rows: one by its digest, many by the digest over all."""
    rows = [(str(key), str(digest)) for key, digest in item.get("usages") or []]
    if not rows and item["kind"] != "usage":
        return 0
    if "rows" in item["detail"]:
        if item["detail"]["rows"] != _over(rows):
            raise _culprit(place, item["detail"], rows)
        _same(f"{place}, number of its usage rows", len(rows), item["detail"]["count"])
    else:
        _same(f"{place}, number of its usage rows", len(rows), 1)
        _same(f"{place}, digest of usage row {rows[0][0]}", rows[0][1], item["detail"]["usage"])
    return len(rows)


def _over(rows: list[tuple[str, str]]) -> str:
    """SHA-256 over the lines "<key> <digest>" in the order of keys."""
    return hashlib.sha256("".join(f"{key} {digest}\n" for key, digest in sorted(rows)).encode()).hexdigest()


def _culprit(place: str, detail: dict[str, Any], rows: list[tuple[str, str]]) -> Difference:
    """The first row that is not as it was: a batch keeps a leaf for each (the digest over its one line), so the one that
    was altered is told from the others."""
    if "leaves" not in detail:
        named = f" {rows[0][0]}" if len(rows) == 1 else "s"
        return Difference(f"{place}, digest of usage row{named}", detail["rows"], _over(rows))
    packed = base64.b64decode(detail["leaves"]).hex()
    leaves = [packed[at : at + 64] for at in range(0, len(packed), 64)]
    there = {_over([row]): row[0] for row in rows}
    known = set(leaves)
    for leaf, key in there.items():
        if leaf not in known:
            return Difference(f"{place}, usage row {key} (altered, or added)", leaf, "none of the batch's leaves")
    gone = next((number for number, leaf in enumerate(leaves, 1) if leaf not in there), 0)
    if gone:
        return Difference(f"{place}, row {gone} of {len(leaves)} in the order of keys", "none", leaves[gone - 1])
    return Difference(f"{place}, digest of its usage rows", detail["rows"], _over(rows))


def _same(place: str, stated: object, computed: object) -> None:
    if stated != computed or type(stated) is not type(computed):
        raise Difference(place, stated, computed)
