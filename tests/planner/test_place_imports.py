"""Measurements and price lists as an organisation imports them, and a plan compared with what they say."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from apps.accounts.models import AuditEntry, User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.fleet.seed import fleet_seed
from apps.planner import hosting_services as services
from apps.planner.hosting.comparison import Group, HostingOption
from apps.planner.hosting_comparison import Comparison, comparison_of
from apps.planner.models import OwnMachine, PlaceMeasurement, Plan, PriceListFile, RentedPrice
from apps.planner.services import plan_create
from apps.planner.solver import Requirements
from apps.pricing.seed import seed as pricing_seed
from apps.pricing.selectors import book_of_digest
from tests.cast import Cast
from tests.compilation.helpers import compiled
from tests.planner.places import file_of, measured_here, written_by_hand
from tests.planner.tenancy import a_plan

AsUser = Callable[[User], Client]
AsToken = Callable[..., Client]
PRICES = (
    "machine,price,currency,unit,region,accelerator,accelerators,spot_price\n"
    "l4.one,0.72,EUR,hour,north,NVIDIA L4,1,0.24\n"
    "l4.two,1.40,EUR,hour,north,NVIDIA L4,2,\n"
)
DOLLARS = "machine,price,currency,unit,region\nnvidia-l4,0.72,USD,hour,south\n"
WORKSHOP = services.MachineFacts(
    "Workshop", "EUR", Decimal(3600), 36, Decimal(100), Decimal("0.25"), Decimal("1.2"), Decimal("0.5")
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    """A little after the measurement of this machine was made."""
    return timezone.now() + timedelta(minutes=1)


@pytest.fixture
def plan(cast: Cast, now: datetime) -> Plan:
    """The small sample, a million times, on the pools here."""
    fleet_seed(now=now)
    pricing_seed(now=now, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    program = compiled(cast, "digits-small", target="lpu")
    assert program.model_version.sha256 == json.loads(measured_here())["model"]["sha256"]
    return plan_create(
        subject=program.model_version, requirements=Requirements(1_000_000), actor=cast.engineer, now=now
    )


def elsewhere(**changes: Any) -> bytes:
    """The file of another machine; written by hand."""
    sha256 = json.loads(measured_here())["model"]["sha256"]
    yesterday = f"{timezone.now() - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    return file_of(written_by_hand(sha256, **{"measured_at": yesterday, **changes}))


def measure(cast: Cast, data: bytes, now: datetime, **stated: Any) -> PlaceMeasurement:
    return services.measurement_import(
        organisation=cast.organisation, data=data, actor=cast.engineer, now=now, **stated
    )


def prices(cast: Cast, now: datetime, text: str = PRICES, *, source: str = "A cloud", **stated: Any) -> PriceListFile:
    return services.pricelist_import(
        organisation=cast.organisation,
        data=text.encode(),
        kind="own",
        source=source,
        actor=cast.engineer,
        now=now,
        **{"as_of": now.date(), **stated},
    )


def machine(cast: Cast, now: datetime, facts: services.MachineFacts = WORKSHOP) -> OwnMachine:
    return services.machine_add(organisation=cast.organisation, machine=facts, actor=cast.engineer, now=now)


def kinds(found: Comparison) -> dict[str, list[str]]:
    return {group.currency: [place.kind for place in group.places] for group in found.groups}


def of_kind(group: Group, kind: str) -> HostingOption:
    return next(place for place in group.places if place.kind == kind)


def test_this_machine_and_another_stand_in_one_comparison(cast: Cast, plan: Plan, now: datetime) -> None:
    here, there = measure(cast, measured_here(), now), measure(cast, elsewhere(), now)
    alone = comparison_of(plan, now=now)
    assert {place.key for place in alone.unpriced} == {str(here.pk), str(there.pk)}
    machine(cast, now)
    prices(cast, now)
    (group,) = comparison_of(plan, now=now).groups
    assert {place.kind for place in group.places} == {"pool", "hourly", "monthly", "spot", "own"}
    assert of_kind(group, "hourly").title == "l4.one"  # two GPUs cost more than the one that was measured
    assert [place.certainty for place in group.places if place.kind != "pool"] == ["measured"] * 4
    row = json.loads(measured_here())["rows"][0]
    hours = Fraction(10**6 * row["wall_ns"], row["items"] * 10**9 * 3600)
    own = of_kind(group, "own").cost
    assert own is not None
    assert own.of(10**6) == 100 + hours * Fraction(1, 10) * Fraction(6, 5) * Fraction(1, 4)
    assert of_kind(group, "hourly").cost.of(36 * 10**5) == Fraction("0.72")  # type: ignore[union-attr]
    assert of_kind(group, "spot").is_interruptible


def test_the_pool_costs_what_its_quote_would(cast: Cast, plan: Plan, now: datetime) -> None:
    measure(cast, elsewhere(), now)
    prices(cast, now)
    (group,) = comparison_of(plan, now=now).groups
    pool = group.reference
    assert pool is not None
    assert pool.kind == "pool"
    book = book_of_digest(plan.basis["book_digest"])
    row = plan.candidates[0]
    assert pool.key == f"{row['title']} on {row['pool']}"
    assert pool.cost is not None
    assert pool.cost.of(10**6) == Fraction(row["price"])
    assert pool.cost.of(1) == max(Fraction(book.contract_minimum), Fraction(row["price_per_thousand"]) / 1000)
    for one in group.break_evens:
        assert one.place.cost is not None
        first = one.first
        if one.against is pool and first is not None:
            assert one.place.cost.of(first) <= pool.cost.of(first)
            assert first == 1 or one.place.cost.of(first - 1) > pool.cost.of(first - 1)


def test_an_expired_file_is_not_used(cast: Cast, plan: Plan, now: datetime) -> None:
    ends = now + timedelta(days=1)
    measure(cast, measured_here(), now, machines=["NVIDIA L4"])
    prices(cast, now, expires_at=ends)
    assert "hourly" in kinds(comparison_of(plan, now=ends - timedelta(microseconds=1)))["EUR"]
    late = comparison_of(plan, now=ends)
    assert kinds(late) == {"EUR": ["pool"] * len(late.groups[0].places)}
    assert [(one.what, one.reason[:10]) for one in late.unused] == [(f"A cloud, {now.date()}", "Expired on")]
    later = comparison_of(plan, now=now + timedelta(days=91))
    assert later.unpriced == []
    assert len(later.unused) == 2


def test_an_expiry_counts_from_the_day_of_the_file_and_only_comes_nearer(cast: Cast, now: datetime) -> None:
    measured = now - timedelta(days=100)
    old = elsewhere(measured_at=f"{measured:%Y-%m-%dT%H:%M:%SZ}")
    row = measure(cast, old, now)
    assert row.is_expired(now=now)
    assert row.expires_at == row.measured_at + timedelta(days=90)
    for wrong in (now + timedelta(days=400), now - timedelta(days=2)):
        with pytest.raises(Problem, match="within 365 days"):
            measure(cast, elsewhere(), now, expires_at=wrong)
    fresh = measure(cast, elsewhere(), now)
    changed = services.measurement_change(
        measurement=fresh, expires_at=now + timedelta(days=2), machines=["My L4"], actor=cast.engineer, now=now
    )
    assert changed.keys == ["my-l4", "nvidia-l4"]
    with pytest.raises(Problem, match="only choose an earlier date"):
        services.measurement_change(measurement=fresh, expires_at=now + timedelta(days=3), actor=cast.engineer, now=now)
    listed = prices(cast, now, as_of=date(2026, 1, 1))
    assert listed.expires_at == datetime(2026, 4, 1, tzinfo=UTC)


def test_the_same_file_again_says_so(cast: Cast, now: datetime) -> None:
    first, listed = measure(cast, elsewhere(), now), prices(cast, now)
    for again in (
        lambda: measure(cast, file_of(first.document), now),
        lambda: prices(cast, now, source="Another name"),
    ):
        with pytest.raises(Problem) as refused:
            again()
        assert (refused.value.status, refused.value.kind) == (409, "already-imported")
    assert (PlaceMeasurement.objects.count(), RentedPrice.objects.count()) == (1, 2)
    assert refused.value.errors[0]["id"] == str(listed.pk)
    services.place_remove(place=listed, actor=cast.engineer, now=now)
    prices(cast, now)
    log = list(
        AuditEntry.objects.filter(organisation=cast.organisation).order_by("id").values_list("action", flat=True)
    )
    assert log == ["measurement.import", "price_list.import", "price_list.remove", "price_list.import"]


def test_nothing_is_converted(cast: Cast, plan: Plan, now: datetime) -> None:
    measure(cast, elsewhere(), now)
    prices(cast, now)
    prices(cast, now, DOLLARS, source="Another cloud")
    euros, dollars = comparison_of(plan, now=now).groups
    assert (euros.currency, dollars.currency) == ("EUR", "USD")
    assert sorted(place.kind for place in dollars.places) == ["hourly", "monthly"]
    assert dollars.reference is not None
    assert dollars.reference.kind == "hourly"
    (month,) = dollars.break_evens
    assert (month.place.kind, month.first) == ("monthly", 730 * 3_600_000)  # a full month costs what its hours cost
    assert not {place.currency for place in euros.places} - {"EUR"}


def test_what_a_place_does_not_meet_is_told(cast: Cast, plan: Plan, now: datetime) -> None:
    measure(cast, elsewhere(), now)
    prices(cast, now)
    tight = replace_requirements(plan, latency="1/1000", accuracy="999/1000")
    place = of_kind(comparison_of(tight, now=now).groups[0], "hourly")
    assert place.reasons[0].startswith("One item takes 1.10")
    assert "the plan requires" in place.reasons[1]
    assert not of_kind(comparison_of(plan, now=now).groups[0], "hourly").reasons


def replace_requirements(plan: Plan, **stated: str) -> Plan:
    plan.requirements = {**plan.requirements, **stated}
    found = Plan.objects.get(pk=plan.pk)
    found.requirements = plan.requirements
    plan.refresh_from_db()
    return found


def test_machines_of_ones_own_are_checked_figure_by_figure(cast: Cast, now: datetime) -> None:
    machine(cast, now)
    machine(cast, now, replace(WORKSHOP, name="WORKSHOP", capital=Decimal(1)))
    assert OwnMachine.objects.get().capital == 1
    wrong = replace(
        WORKSHOP,
        capital=Decimal("NaN"),
        watts=Decimal(-1),
        energy_price=Decimal("0.0000000001"),
        pue=Decimal("0.9"),
        utilisation=Decimal(0),
        months=0,
        currency="XXX",
        name="?",
    )
    with pytest.raises(Problem) as refused:
        machine(cast, now, wrong)
    fields = {error["field"] for error in refused.value.errors}
    assert fields == {"capital", "watts", "energy_price", "pue", "utilisation", "months", "currency", "name"}


def test_the_api_imports_once_for_a_key_and_compares(cast: Cast, as_token: AsToken, plan: Plan) -> None:
    client = as_token(cast.engineer, cast.organisation, Scope.READ, Scope.BUILD)
    body = {"document": json.loads(elsewhere()), "machines": ["L4"]}
    first, second = (
        client.post(
            "/api/v1/places/measurements", body, content_type="application/json", headers={"Idempotency-Key": "k"}
        )
        for _ in range(2)
    )
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] == second.json()["id"]
    again = client.post("/api/v1/places/measurements", body, content_type="application/json")
    assert (again.status_code, again.json()["code"]) == (409, "already-imported")
    form = {"kind": "own", "source": "A cloud", "as_of": str(timezone.now().date())}
    wrong = client.post("/api/v1/places/price-lists", {**form, "file": upload(PRICES.replace("1.40,EUR", "1.40,Euro"))})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "price-list-invalid")
    assert [(one["line"], one["row"], one["field"]) for one in wrong.json()["errors"]] == [(3, "l4.two", "currency")]
    assert client.post("/api/v1/places/price-lists", {**form, "file": upload(PRICES)}).status_code == 201
    told = client.get(f"/api/v1/plans/{plan.pk}/places").json()
    (group,) = told["groups"]
    hourly = next(one for one in group["places"] if one["kind"] == "hourly")
    at = {one["items_per_month"]: one["costs"][hourly["place"]] for one in group["volumes"]}
    assert Fraction(at[1_000_000]) == Fraction("0.72") * 1_000_000 / 3_600_000
    assert (hourly["certainty"], hourly["items_per_second"]) == ("measured", "1000")


def upload(text: str) -> SimpleUploadedFile:
    return SimpleUploadedFile("prices.csv", text.encode(), "text/csv")


def test_the_pages_say_what_the_files_say(cast: Cast, as_user: AsUser, plan: Plan) -> None:
    client = as_user(cast.engineer)
    assert "takt measure model.onnx" in client.get("/places").content.decode()
    assert "Nothing to compare with yet" in client.get(f"/plans/{plan.pk}/places").content.decode()
    sent = {"kind": "own", "source": "A cloud", "as_of": str(timezone.now().date())}
    refused = client.post("/places/price-lists", {**sent, "file": upload(PRICES.replace("hour", "month", 1))})
    assert refused.status_code == 422
    assert "line 2 (l4.one), column unit" in refused.content.decode()
    file = SimpleUploadedFile("m.json", elsewhere(), "application/json")
    assert client.post("/places/measurements", {"file": file}).status_code == 302
    assert client.post("/places/price-lists", {**sent, "file": upload(PRICES)}).status_code == 302
    page = client.get(f"/plans/{plan.pk}/places").content.decode()
    assert re.search(r"[A-Z] l4\.one, by the hour", page)
    assert "Costs no more than " in page
    rows = list(csv.DictReader(io.StringIO(client.get(f"/plans/{plan.pk}/places.csv").content.decode())))
    document = client.get(f"/plans/{plan.pk}/places.json").json()
    exact = {
        (one["items_per_month"], place): Fraction(cost)
        for group in document["groups"]
        for one in group["volumes"]
        for place, cost in one["costs"].items()
    }
    assert len(rows) == len(exact)
    for row in rows:
        cost = exact[int(row["items_per_month"]), row["place"]]
        assert abs(Fraction(row["cost"]) - cost) <= Fraction(1, 2 * 10**12)
    assert client.get(f"/plans/{plan.pk}/places.xml").status_code == 404


def test_a_plan_of_nothing_compares_nothing(cast: Cast, now: datetime) -> None:
    found = comparison_of(Plan.objects.get(**a_plan(cast)), now=now)
    assert (found.groups, found.unpriced, found.unused) == ([], [], [])
