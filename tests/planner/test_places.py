"""Places: files that are checked field by field and row by row, and exact costs by volume. No database."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apps.planner.hosting.cells import Format
from apps.planner.hosting.comparison import item_rate, row_chosen
from apps.planner.hosting.costs import Cost, Owned, ranges_cheaper, rented_hourly, rented_monthly, searched
from apps.planner.hosting.faults import Unreadable
from apps.planner.hosting.formats import SAMPLE
from apps.planner.hosting.measurement import measurement_of, measurement_read
from apps.planner.hosting.names import name_key
from apps.planner.hosting.pricelist import ROWS_MAX, PriceList, pricelist_read
from tests.planner.places import file_of, measured_here, sealed, written_by_hand
from tests.tiers import some

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
SHA = "a" * 64
MOST = 200

amounts = st.fractions(0, 20, max_denominator=9)
costs = st.builds(
    Cost,
    each=amounts,
    fixed=amounts,
    capacity=st.none() | st.fractions(Fraction(1, 3), 60, max_denominator=7).filter(bool),
    least=amounts,
)


@settings(max_examples=some(120), deadline=None)
@given(costs, costs)
@example(Cost(Fraction(1)), Cost(Fraction(0), fixed=Fraction(7, 2), capacity=Fraction(10)))
def test_a_place_is_cheaper_exactly_where_its_ranges_say(place: Cost, other: Cost) -> None:
    ranges = ranges_cheaper(place, other, MOST)
    said = {volume for one in ranges for volume in range(one.first, one.last + 1)}
    until = searched(place, other, MOST)
    assert said == {volume for volume in range(1, until + 1) if place.of(volume) <= other.of(volume)}
    assert all(a.last + 1 < b.first for a, b in pairwise(ranges))


@settings(max_examples=some(60), deadline=None)
@given(costs, st.integers(1, 10**12), st.integers(1, 10**6))
def test_more_never_costs_less(cost: Cost, items: int, more: int) -> None:
    assert cost.of(items) <= cost.of(items + more)


def test_what_a_machine_costs_follows_from_what_is_stated() -> None:
    rate = Fraction(1000)  # 3.6 million an hour
    assert rented_hourly(Fraction(9, 10), rate).of(36_000_000) == 9
    month = rented_monthly(Fraction(9, 10), rate)
    assert (month.of(1), month.of(730 * 3_600_000), month.of(730 * 3_600_000 + 1)) == (657, 657, 1314)
    own = Owned(Fraction(3600), 36, Fraction(500), Fraction(1, 4), Fraction(6, 5), Fraction(1, 2)).cost(rate)
    assert own.of(3_600_000) == 100 + Fraction(500, 1000) * Fraction(6, 5) * Fraction(1, 4)
    assert own.machines(365 * 3_600_000 + 1) == 2  # half of a month's 730 hours


def test_what_takt_measure_writes_is_what_is_read() -> None:
    found = measurement_read(measured_here(), now=datetime.now(UTC))
    (row,) = found.rows
    assert found.machines == ("workshop",)
    assert found.provider == "CPUExecutionProvider"
    assert row.p50_ns <= row.p95_ns <= row.p99_ns
    assert item_rate(row, None, {}) == Fraction(row.items * 10**9, row.wall_ns)


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in written_by_hand(SHA).items() if key != name}


def _rows(**changes: Any) -> dict[str, Any]:
    document = deepcopy(written_by_hand(SHA))
    document["rows"][0].update(changes)
    return sealed(document)


WRONG: dict[str, tuple[Any, str]] = {
    "another format": ({"format": "takt-measurement/2"}, "this is 'takt-measurement/2', not 'takt-measurement/1'"),
    "changed": ({**written_by_hand(SHA), "measured_at": "2026-03-01T12:00:01Z"}, "digest: the file was changed"),
    "a float": (sealed({**_without("digest"), "load_before": 0.5}), "no decimal fraction such as 0.5"),
    "not a number": (sealed({**_without("digest"), "load_before": float("nan")}), "no decimal fraction such as nan"),
    "nul": (sealed({**_without("digest"), "system": "a\0b"}), "no text such as"),
    "to come": (written_by_hand(SHA, measured_at="2026-03-03T12:00:00Z"), "is in the future"),
    "no rows": (written_by_hand(SHA, rows=[]), "rows: it has no rows"),
    "negative": (_rows(p50_ns=-1), "rows[0].p50_ns: give a whole number of at least 1, not '-1'"),
    "true is no number": (_rows(samples=True), "rows[0].samples: give a whole number"),
    "falling percentiles": (_rows(p95_ns=1), "the percentiles fall"),
    "another rate": (_rows(items_per_second="5.000000"), "items and wall_ns give 1000.000000"),
    "other items": (_rows(items=7, items_per_second="7.000000"), "1,000 runs of 1 are 1,000 items, not 7"),
    "impossibly quick": (_rows(p50_ns=10**8, p95_ns=10**8, p99_ns=10**8), "half of the runs took longer"),
    "no digest of a model": (written_by_hand("short"), "64 hexadecimal digits"),
    "another batch": (written_by_hand(SHA, batch_dimension="n"), "rows[0].batch: it is not the size"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_measurement_is_refused_by_the_field_at_fault(name: str) -> None:
    document, says = WRONG[name]
    with pytest.raises(Unreadable) as refused:
        measurement_of(document, now=NOW)
    assert says in str(refused.value)


def test_what_is_no_document_is_refused() -> None:
    for data, says in (
        (b"\xff", "not UTF-8"),
        (b"{", "not JSON"),
        (b"[1]", "takt measure -o"),
        (b"[" * 10**5, "not JSON"),
    ):
        with pytest.raises(Unreadable, match=says):
            measurement_read(data, now=NOW)
    with pytest.raises(Unreadable, match="at most 262,144"):
        measurement_read(file_of(written_by_hand(SHA)) + b" " * 2**18, now=NOW)


def test_the_row_with_most_items_a_second_within_the_latency_is_taken() -> None:
    document = written_by_hand(SHA)
    base = document["rows"][0]

    def batch(size: int, p95_ns: int) -> dict[str, Any]:
        return {
            **base,
            "batch": size,
            "dims": {"n": size, "length": 16},
            "items": 1000 * size,
            "p95_ns": p95_ns,
            "p99_ns": 2_000_000,
            "items_per_second": f"{1000 * size}.000000",
        }

    rows = [batch(1, 1_000_000), batch(8, 1_800_000), batch(6, 1_200_000)]
    read = measurement_of(sealed({**document, "batch_dimension": "n", "rows": rows}), now=NOW)

    def chosen(item: dict[str, int], latency: Fraction | None = None) -> tuple[int, Fraction] | None:
        found = row_chosen(read.rows, leading="n", item=item, latency=latency)
        return found and (found[0].batch, found[1])

    one = {"n": 1, "length": 16}
    assert chosen(one) == (8, 8000)
    assert chosen(one, Fraction(12, 10_000)) == (6, 6000)
    assert chosen(one, Fraction(1, 10**6)) == (1, 1000)  # none is quick enough: the quickest, which is then told
    assert chosen({"n": 4, "length": 16}) == (8, 2000)  # an item of four fits twice into eight, and into no other
    assert chosen({"n": 1, "length": 32}) is None


def read_own(text: str) -> PriceList:
    return pricelist_read(text.encode(), Format.OWN)


HEAD = "machine,price,currency,unit,region\n"
REFUSED = {
    "unit": (HEAD + "a,1,EUR,hour,x\nb,1,EUR,month,x\n", "line 3 (b), column unit: the price is per 'month'"),
    "currency": (HEAD + "a,1,EURO,hour,x\n", "line 2 (a), column currency: 'EURO' is not a currency"),
    "small letters": (HEAD + "a,1,eur,hour,x\n", "line 2 (a), column currency: 'eur' is not a currency"),
    "two currencies": (
        HEAD + "a,1,EUR,hour,x\nb,1,USD,hour,x\n",
        "line 3 (b), column currency: the rows before are in EUR",
    ),
    "not a number": (
        HEAD + "a,NaN,EUR,hour,x\n",
        "line 2 (a), column price: give an amount such as 1.29",
    ),
    "negative": (HEAD + "a,-1,EUR,hour,x\n", "column price: give an amount such as 1.29"),
    "exponent": (HEAD + "a,1e3,EUR,hour,x\n", "column price: give an amount such as 1.29"),
    "comma": (HEAD + 'a,"1,5",EUR,hour,x\n', "column price: give an amount such as 1.29"),
    "nought": (HEAD + "a,0.00,EUR,hour,x\n", "column price: a price must be above 0"),
    "no price": (HEAD + "a,,EUR,hour,x\n", "column price: neither price nor spot_price is given"),
    "no name": (HEAD + ",1,EUR,hour,x\n", "line 2, column machine: it is empty"),
    "twice": (
        HEAD + "a,1,EUR,hour,x\n\nA,2,EUR,hour,X\n",
        "line 4 (A), column machine: 'A' in X is in line 2 already",
    ),
    "a missing column": ("machine,price,unit,region\na,1,hour,x\n", "line 1: the header has no column currency"),
    "a column twice": ("machine,price,currency,unit,region,Price\n", "the header has price twice"),
    "cells": (HEAD + "a,1,EUR,hour\n", "line 2 (a): the row has 4 cells, the header 5"),
    "quotes": (HEAD + '"a,1,EUR,hour,x\n', "the row is not CSV"),
    "nothing": (HEAD, "no machine prices"),
    "many": (HEAD + "".join(f"m{n},1,EUR,hour,x\n" for n in range(ROWS_MAX + 1)), "more than 20,000 rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_price_list_is_refused_by_the_row_at_fault(name: str) -> None:
    text, says = REFUSED[name]
    with pytest.raises(Unreadable) as refused:
        read_own(text)
    assert says in str(refused.value)


def test_every_wrong_row_is_named_and_the_rest_counted() -> None:
    with pytest.raises(Unreadable) as refused:
        read_own(HEAD + "".join(f"m{n},1,EUR,day,x\n" for n in range(25)))
    assert [fault.line for fault in refused.value.faults] == list(range(2, 22))
    assert str(refused.value).endswith("And 5 more.")
    with pytest.raises(Unreadable, match="line 3: the row is not UTF-8"):
        pricelist_read((HEAD + "a,1,EUR,hour,x\n").encode() + b"\xff", Format.OWN)
    with pytest.raises(Unreadable, match="line 2: the row contains the character NUL"):
        read_own(HEAD + "a\0,1,EUR,hour,x\n")


def test_the_list_to_fill_in_is_a_list() -> None:
    found = read_own("\ufeff" + SAMPLE.replace("\n", "\r\n"))
    assert found.currency == "EUR"
    assert [(one.machine, one.on_demand, one.spot) for one in found.prices] == [
        ("gpu-l4.small", Decimal("0.71"), Decimal("0.24")),
        ("cpu-8", Decimal("0.29"), None),
    ]


# Of the shape of a catalogue (schema v8), with made-up machines: GpuInfo as a literal of Python and as JSON.
CATALOGUE = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,AvailabilityZone,GpuInfo,SpotPrice
1x-X1,X1,1,8,64,1.29,north,,"{'Gpus': [{'Name': 'MAKER-X1-80GB', 'Count': 1, 'MemoryInfo': {'SizeInMiB': 81559}}]}",
8x-X1,X1,8.0,64,512,0.31500000000000006,north,a,"{""Gpus"": [{""Name"": ""X1"", ""Count"": 8}]}",
1x-X1_SPOT,X1,1.0,8,64,,south,,"{""Gpus"": [{""Name"": ""X1"", ""Count"": 1}]}",0.53
cpu.large,,,8,64,0.2,north,,,
,X1,1,,,,north,,,0.3
1x-X2,X2,1,8,64,,north,,,
"""


def test_a_catalogue_is_read_in_both_spellings_and_where_only_spot_is_sold() -> None:
    found = pricelist_read(CATALOGUE.encode(), Format.SKYPILOT)
    assert (found.currency, found.left_out) == ("USD", 2)
    assert [(one.machine, one.accelerators, one.gpu, one.on_demand, one.spot) for one in found.prices] == [
        ("1x-X1", 1, "MAKER-X1-80GB", Decimal("1.29"), None),
        ("8x-X1", 8, "X1", Decimal("0.31500000000000006"), None),
        ("1x-X1_SPOT", 1, "X1", None, Decimal("0.53")),
        ("cpu.large", 0, "", Decimal("0.2"), None),
    ]
    with pytest.raises(Unreadable, match=r"line 2 \(1x-X1\), column GpuInfo: it is neither JSON nor a Python literal"):
        pricelist_read(CATALOGUE.replace("{'Gpus'", "{open('x')", 1).encode(), Format.SKYPILOT)


COLUMNS = (
    "BillingCurrency,ChargeCategory,ChargeClass,ChargePeriodEnd,ContractedUnitPrice,ListUnitPrice,PricingCategory,PricingUnit,"
    "RegionId,ServiceCategory,SkuId,SkuPriceDetails"
)
FOCUS = f"""{COLUMNS}
USD,Usage,,2026-03-01T02:00:00Z,0.8,1.0,Standard,Hours,r1,Compute,SKU1,"{{""InstanceType"": ""g.large""}}"
USD,Usage,,2026-03-01T01:00:00+01:00,,0.3,Dynamic,Hours,r1,Compute,SKU2,"{{""InstanceType"": ""g.large""}}"
USD,Usage,,2026-03-01T01:00:00Z,0.1,0.1,Standard,GB-Months,r1,Storage,SKU3,
USD,Usage,,2026-03-01T01:00:00Z,0.9,1.0,Standard,Hours,r1,Compute,SKU1,"{{""InstanceType"": ""g.large""}}"
USD,Tax,,2026-03-01T01:00:00Z,,,,,,Compute,,
USD,Usage,,2026-03-01T01:00:00Z,0.5,1.0,Committed,Hours,r1,Compute,SKU1,"{{""InstanceType"": ""g.large""}}"
"""


def test_a_focus_file_gives_the_newest_price_of_each_machine() -> None:
    found = pricelist_read(FOCUS.encode(), Format.FOCUS)
    assert [(one.machine, one.on_demand, one.spot) for one in found.prices] == [
        ("g.large", Decimal("0.8"), None),
        ("g.large", None, Decimal("0.3")),
    ]
    assert found.left_out == 3
    with pytest.raises(Unreadable, match=r"line 2 \(SKU1\), column PricingUnit: the price is per 'Days'"):
        pricelist_read(FOCUS.replace("0.8,1.0,Standard,Hours", "0.8,1.0,Standard,Days").encode(), Format.FOCUS)


def test_names_are_alike_without_regard_to_case_and_signs() -> None:
    assert name_key("NVIDIA H100 80GB HBM3") == name_key("NVIDIA-H100-80GB-HBM3")
    assert name_key("L40") != name_key("L40S")
    assert name_key(" ?? ") == ""
