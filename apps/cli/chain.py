"""Checks the ledger's hash chain offline, from a file that the portal exports."""

from __future__ import annotations

import base64
import hashlib
from decimal import Decimal
from typing import Any

from apps.cli.agreement import Difference, Unreadable
from apps.pricing.rating import decimal_text, digest_of, exact_sum

CHAIN = "takt-chain/2"
OLD = "takt-chain/1"  # the older form: stored digests of rows instead of computed ones, and no head
FIRST = "0" * 64
_OLDER = (
    f"a file of the format {OLD} has neither digests computed from the columns of its usage rows nor the head, so it cannot "
    "show whether a row was altered together with its digest or the end was cut off; download the chain again"
)
_HASHED = ("previous", "sequence", "at", "kind", "key", "subject", "detail", "entries")


class Altered(Difference):
    """Raised if the site found a changed row in its database while writing the file."""

    def __init__(self, place: str, found: dict[str, str]) -> None:
        place = f"{place}, {found['row']}"
        Exception.__init__(self, f"{place}: {found['reason']}")
        self.place, self.stated, self.computed = place, found["reason"], ""


def chain_verify(document: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return two lists of sentences: what was checked, and what could not be checked.

    Raises Difference at the first changed row, and Unreadable if the file can't be read.
    """
    if document.get("format") not in (CHAIN, OLD):
        raise Unreadable(f"The document's format is {document.get('format')!r}; this command reads {CHAIN} and {OLD}.")
    try:
        checked = _verify(document)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if isinstance(error, Difference | Unreadable):
            raise
        raise Unreadable(
            f"The chain lacks a field that the format {document['format']} requires: {error!r}."
        ) from error
    except ArithmeticError as error:  # not a number, or an impossible amount
        raise Unreadable("The chain contains an amount that is not a number.") from error
    if document["format"] == OLD:
        return checked, [_OLDER]
    return checked, []


def _verify(document: dict[str, Any]) -> list[str]:
    organisation = document["organisation"]
    hashes: dict[int, str] = {}
    last, usages = FIRST, 0
    for number, item in enumerate(document["transactions"], 1):
        place = f"transaction {number} ({item['key']})"
        _unaltered(place, item)
        _same(f"{place}, sequence", item["sequence"], number)
        _same(f"{place}, hash of the one before", item["previous"], last)
        _entries(place, item["entries"])
        computed = digest_of({"organisation": organisation, **{name: item[name] for name in _HASHED}})
        _same(f"{place}, hash", item["hash"], computed)
        usages += _usages(place, item)  # the hash covers the detail
        hashes[number] = last = computed
    _unaltered("the chain", document)
    _named(document, hashes)
    told = f"{len(hashes):,} transactions of organisation {organisation} follow each other, each sums to zero; last: {last}"
    return [told, f"{usages:,} usage rows are bound to them, {len(document['roots']):,} day roots are theirs"]


def _unaltered(place: str, part: dict[str, Any]) -> None:
    if "altered" in part:
        raise Altered(place, part["altered"])


def _named(document: dict[str, Any], hashes: dict[int, str]) -> None:
    if document["format"] == CHAIN:
        head = document["head"]
        named = head["sequence"], head["hash"]
        reached = len(hashes), hashes.get(len(hashes), FIRST)
        if named != reached:
            raise Difference(
                f"transaction {head['sequence']}, which the chain's head names",
                head["hash"],
                f"an end with transaction {reached[0]} ({reached[1]})",
            )
    roots = [(f"root of {root['day']}", root) for root in document["roots"]]
    if document.get("today") is not None:
        roots.append((f"root of {document['today']['day']} so far", document["today"]))
    for place, root in roots:
        found = hashes.get(root["sequence"], f"an end with transaction {len(hashes)}")
        _same(f"{place}, hash of transaction {root['sequence']}", root["hash"], found)


def _entries(place: str, entries: dict[str, str]) -> None:
    by_currency: dict[str, list[Decimal]] = {}
    for account, amount in entries.items():
        by_currency.setdefault(account.rpartition(" ")[2], []).append(Decimal(amount))
    for currency, amounts in by_currency.items():
        _same(f"{place}, sum of its entries in {currency}", decimal_text(exact_sum(amounts)), "0")


def _usages(place: str, item: dict[str, Any]) -> int:
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
    return hashlib.sha256("".join(f"{key} {digest}\n" for key, digest in sorted(rows)).encode()).hexdigest()


def _culprit(place: str, detail: dict[str, Any], rows: list[tuple[str, str]]) -> Difference:
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
