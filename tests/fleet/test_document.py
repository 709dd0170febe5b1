"""Fleet files: what is written reads back as the same document; what is wrong is named with its place and remedy."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.fleet.document import STATES, Cost, Document, DocumentError, Pool, Site, check, difference, parse, write
from apps.fleet.seed import FILE
from compiler import targets

KNOWN = {"lpu": "lpu", "lpu2": "lpu2"}
OWN = targets.text("edge").replace('name = "edge"', 'name = "chip"', 1)
HEAD = 'format = "takt-fleet/1"\n[sites.home]\nname = "Home"\ntime_zone = "UTC"\n'
POOL = HEAD + '[pools.lpu-a]\nname = "A"\nsite = "home"\nprocessor = "lpu"\n'
COST = '[[pools.lpu-a.cost]]\nfrom = 2026-01-01T00:00:00Z\ncurrency = "EUR"\nmonths = 48\nwatts = 300\nenergy_price = 0.28\n'

slugs = st.sampled_from(["home", "a", "0", "x-1", "lpu_2", "Pool"])
texts = st.text("ab 7'\"\\#ß界.=", min_size=1, max_size=6).filter(lambda text: text == text.strip())
amounts = st.decimals(0, 10**8, places=4).map(lambda one: one.normalize() if one else Decimal(0))
costs = st.builds(
    Cost,
    begins=st.datetimes(datetime(2001, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    currency=st.just("EUR"),
    capital=amounts,
    months=st.integers(1, 120),
    watts=amounts,
    energy_price=amounts,
    pue=st.just(Decimal("1.25")),
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    site = st.builds(Site, texts, st.sampled_from(["UTC", "Europe/Zurich"]))
    sites = draw(st.dictionaries(slugs, site, min_size=1, max_size=2))
    own = {"chip": OWN} if draw(st.booleans()) else {}
    pools = {}
    for slug in draw(st.lists(slugs, unique=True, max_size=3)):
        processor = draw(st.sampled_from(["host", *KNOWN, *own]))
        numbered = st.integers(0, 4).map(lambda count, slug=slug: {f"{slug}-{one}": "active" for one in range(count)})
        named = st.dictionaries(texts, st.sampled_from(STATES), max_size=4)
        some = draw(st.lists(costs, max_size=2, unique_by=lambda one: one.begins))
        pools[slug] = Pool(
            draw(texts),
            draw(st.sampled_from(sorted(sites))),
            processor,
            draw(st.sampled_from(["lpu", "host"])),
            draw(st.one_of(numbered, named)),
            tuple(sorted(some, key=lambda one: one.begins)),
        )
    return Document(sites, own, pools)


@given(documents())
@settings(max_examples=20)
def test_a_written_file_reads_back_as_the_same_document(document: Document) -> None:
    for back in (parse(write(document), known=KNOWN), check(document.to_json(), known=KNOWN)):
        assert back == document
        assert back.digest == document.digest
        assert not difference(document, back)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@settings(max_examples=60)
def test_no_file_ends_in_anything_but_a_document_or_its_faults(data: bytes) -> None:
    with pytest.raises(DocumentError):
        parse(data + b"\n= no", known=KNOWN)
    with pytest.raises(DocumentError, match="format"):
        check({"pools": data.decode(errors="replace")}, known=KNOWN)


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ("", "format", "write that line"),
        ('format = "takt-fleet/1"\nformat = "x"', "", "Cannot overwrite a value"),
        (HEAD + "[sites.home]", "", "Correct the file"),
        ("x = " + "[" * 5000, "", "nested too deeply"),
        ("x = " + "9" * 5000, "", "Correct the file"),
        ("#" * (1 << 20) + "#", "", "at most 1,048,576"),
        (HEAD + '[sites.moon]\nname = "M"\ntime_zone = "Moon/Base"', "sites.moon.time_zone", "IANA"),
        (HEAD + "[sites.moon]", "sites.moon.name", "it is missing"),
        (HEAD + '[sites."a b"]\nname = "M"', "sites.'a b'", "write another"),
        (HEAD + "colour = 1", "sites.home.colour", "the known keys are: name, time_zone"),
        (POOL.replace('"home"\np', '"mars"\np'), "pools.lpu-a.site", "sites are home; choose one"),
        (POOL.replace('"lpu"', '"tpu9"'), "pools.lpu-a.processor", "host, lpu, lpu2; choose one"),
        (POOL + "devices = -1", "pools.lpu-a.devices", "0 to 20,000"),
        (POOL + "devices = true", "pools.lpu-a.devices", "write how many"),
        (POOL + 'devices = ["x", "x"]', "pools.lpu-a.devices[1]", "give each its own name"),
        (POOL + 'devices = ["x", 7]', "pools.lpu-a.devices[1]", "a table is expected"),
        (
            POOL + 'devices = [{ name = "x", state = "off" }]',
            "pools.lpu-a.devices[0].state",
            "active, draining, failed",
        ),
        (POOL + 'devices = ["a\\u0000b"]', "pools.lpu-a.devices[0].name", "1 to 40 characters"),
        (
            POOL + "devices = 20000\n" + POOL[len(HEAD) :].replace("lpu-a", "b") + "devices = 1",
            "pools",
            "at most 20,000",
        ),
        (POOL + COST + "capital = -1", "pools.lpu-a.cost[0].capital", "a cost is not negative"),
        (POOL + COST + "capital = nan", "pools.lpu-a.cost[0].capital", "write a number"),
        (POOL + COST + "capital = 1e999999", "pools.lpu-a.cost[0].capital", "write a number"),
        (POOL + COST + "capital = 1e-30", "pools.lpu-a.cost[0].capital", "12 places"),
        (POOL + COST + "capital = 1\npue = 0.5", "pools.lpu-a.cost[0].pue", "at least 1"),
        (POOL + COST.replace("Z\n", "\n") + "capital = 1", "pools.lpu-a.cost[0].from", "with its zone"),
        (POOL + COST.replace('"EUR"', '"euro"') + "capital = 1", "pools.lpu-a.cost[0].currency", "write"),
        (
            POOL + COST.replace("EUR", "XYZ") + "capital = 1",
            "pools.lpu-a.cost[0].currency",
            "not a currency of ISO 4217",
        ),
        (POOL + COST.replace("48", "0") + "capital = 1", "pools.lpu-a.cost[0].months", "1 to 1200"),
        (POOL + (COST + "capital = 1\n") * 2, "pools.lpu-a.cost[1].from", "keep one"),
        (HEAD + '[processors.lpu]\nfile = "x"', "processors.lpu", "another name"),
        (HEAD + '[processors.chip]\nfile = "x = 1"', "processors.chip.file", "."),
        (HEAD + f"[processors.other]\nfile = '''\n{OWN}'''", "processors.other", "[processors.chip]"),
    ],
)
def test_each_fault_names_its_place_and_the_remedy(text: str, place: str, remedy: str) -> None:
    with pytest.raises(DocumentError) as raised:
        parse(text, known=KNOWN)
    assert any(fault.place == place and remedy in fault.said for fault in raised.value.faults), raised.value
    assert str(raised.value).endswith(".")


def test_every_fault_is_said_at_once() -> None:
    with pytest.raises(DocumentError) as raised:
        parse(POOL.replace('"home"\np', '"mars"\np').replace('"lpu"', '"tpu9"') + "devices = -1", known=KNOWN)
    assert len(raised.value.faults) == 3


def test_a_device_hour_costs_its_share_of_the_capital_and_its_power_exactly() -> None:
    document = parse(POOL + COST + 'capital = "35040"\npue = 1.5', known=KNOWN)
    (cost,) = document.pools["lpu-a"].costs
    assert cost.per_hour == 1 + Fraction(
        300 * 28 * 15, 1000 * 100 * 10
    )  # 35,040 over 48 months of 730 hours; 0.126 of power


def test_a_difference_is_said_in_one_sentence() -> None:
    old = parse(POOL + "devices = 3", known=KNOWN)
    listed = 'devices = ["lpu-a-0", { name = "lpu-a-1", state = "draining" }, "x", "y"]'
    new = parse(POOL.replace('"A"', '"B"') + listed, known=KNOWN)
    assert difference(old, new).summary() == "1 pool changed, 1 device drained, 1 removed, 2 added"


def test_the_demo_fleet_is_a_sound_file() -> None:
    assert sorted(parse(FILE.read_bytes(), known=KNOWN).pools) == ["host-cpu", "lpu-a", "lpu2-b"]


def test_a_stored_cost_in_a_currency_that_is_none_stays_readable() -> None:
    stored = parse(POOL + COST + "capital = 1", known=KNOWN).to_json()
    stored["pools"]["lpu-a"]["cost"][0]["currency"] = "XYZ"
    assert check(stored, known=None).pools["lpu-a"].costs[0].currency == "XYZ"
    with pytest.raises(DocumentError, match="not a currency of ISO 4217"):
        check(stored, known=KNOWN)
