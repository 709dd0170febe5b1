from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.models import AuditEntry
from apps.accounts.problems import Problem
from apps.fleet.models import HostMeasurement
from apps.pricing.rating import Counts, Rating, Terms, digest_of, exact_sum, rate
from apps.sales.builder import pools_fitting
from apps.sales.models import Quote
from apps.sales.services import QuoteLine, offer_make, quote_create
from tests.cast import Cast
from tests.pricing.rating.books import book
from tests.sales.market import NOW, Market

pytestmark = pytest.mark.django_db

WEEK = (NOW, NOW + timedelta(days=7))


def test_a_quote_states_the_one_price_with_every_step(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    quote = quote_create(
        organisation=cast.organisation,
        lines=[(program, 1_000_000)],
        klass="standard",
        pool=market.lpu,
        window=WEEK,
        actor=cast.engineer,
        now=NOW,
    )
    expected = rate(
        book=book(),
        counts=Counts(704_000_000, 90_000),
        executions=1_000_000,
        terms=Terms("lpu", "float32", "standard", instant=NOW),
    )
    quote.refresh_from_db()
    line = quote.document["lines"][0]
    assert Rating.from_json(line["rating"]).to_json() == expected.to_json()
    assert quote.worst == quote.expected == expected.amount == Decimal(quote.document["net"]) == Decimal("5.632")
    assert digest_of(quote.document) == quote.digest
    assert quote.document["payable"] == "5.63"
    assert quote.valid_until == NOW + timedelta(days=1)
    assert AuditEntry.objects.filter(action="quote.create", subject=f"quote {quote.id}").exists()


def test_a_quote_says_which_windows_it_would_take_and_takes_none(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    for _ in range(2):
        quote = quote_create(
            organisation=cast.organisation,
            lines=[(program, 10_000)],
            klass="standard",
            pool=market.lpu,
            window=WEEK,
            actor=None,
            now=NOW,
        )
        (window,) = quote.document["reservation"]
        assert datetime.fromisoformat(window["start"]) == NOW
        length = datetime.fromisoformat(window["end"]) - NOW
        exact = Fraction(10_000 * 90_000 + 30_000, 900_000_000)
        assert timedelta(0) <= length - timedelta(seconds=float(exact)) <= timedelta(microseconds=1)


def test_off_peak_is_bound_to_the_first_off_peak_instant_of_the_window(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    quote = quote_create(
        organisation=cast.organisation,
        lines=[(program, 1000)],
        klass="off_peak",
        pool=market.lpu,
        window=WEEK,
        actor=None,
        now=NOW,
    )
    evening = NOW.replace(hour=20, minute=0)  # 21:00 in Berlin
    assert datetime.fromisoformat(quote.document["tariff"]["instant"]) == evening
    assert datetime.fromisoformat(quote.document["reservation"][0]["start"]) == evening


def test_cheaper_classes_are_named_with_their_start(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    offer = offer_make(
        organisation=cast.organisation, lines=[(program, 1000)], klass="standard", pool=market.lpu, window=WEEK, now=NOW
    )
    found = [(one["klass"], Fraction(one["share"])) for one in offer.document["alternatives"]]
    assert found == [("batch", Fraction(1, 2)), ("off_peak", Fraction(3, 5)), ("priority", Fraction(7, 4))]
    assert all(one["start"] for one in offer.document["alternatives"])
    assert not Quote.objects.exists()


def test_a_cascade_shows_expected_and_worst(cast: Cast, market: Market) -> None:
    small, large = (market.program(cast.organisation, cast.engineer, operations=n) for n in (10**9, 10**12))
    quote = quote_create(
        organisation=cast.organisation,
        lines=[QuoteLine(small, 1000), QuoteLine(large, 1000, 120)],
        klass="standard",
        pool=market.lpu,
        window=WEEK,
        actor=None,
        now=NOW,
    )
    assert (quote.expected, quote.worst) == (Decimal("0.968"), Decimal("8.008"))
    assert quote.worst == exact_sum(Decimal(line["amount"]) for line in quote.document["lines"])
    assert any("120 of 1,000 executions are expected" in said for said in quote.document["assumptions"])


def test_a_bound_is_said_to_be_one(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer, exact=False)
    offer = offer_make(
        organisation=cast.organisation, lines=[(program, 1)], klass="standard", pool=market.lpu, window=None, now=NOW
    )
    assert any("proven upper bound" in said for said in offer.document["assumptions"])


def test_one_program_asked_for_twice_is_one_line(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    offer = offer_make(
        organisation=cast.organisation,
        lines=[(program, 3), (program, 4)],
        klass="standard",
        pool=market.lpu,
        window=None,
        now=NOW,
    )
    assert [line["executions"] for line in offer.document["lines"]] == [7]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"klass": "guaranteed"}, "class-not-offered"),
        ({"klass": "gold"}, "not-priced"),
        ({"volume": 0}, "volume"),
        ({"volume": 10**12 + 1}, "volume"),
        ({"window": (NOW, NOW - timedelta(hours=1))}, "window"),
        ({"window": (NOW, NOW + timedelta(days=90))}, "window"),
        ({"klass": "off_peak", "window": (NOW, NOW + timedelta(hours=1))}, "no-off-peak"),
        ({"pool": "lpu2"}, "wrong-processor"),
        ({"pool": "host"}, "not-measured"),
    ],
)
def test_what_cannot_be_quoted_is_refused_with_what_to_do(
    cast: Cast, market: Market, change: dict[str, object], kind: str
) -> None:
    program = market.program(cast.organisation, cast.engineer)
    with pytest.raises(Problem) as refusal:
        offer_make(
            organisation=cast.organisation,
            lines=[(program, int(str(change.get("volume", 10))))],
            klass=str(change.get("klass", "standard")),
            pool=getattr(market, str(change.get("pool", "lpu"))),
            window=change.get("window", WEEK),  # type: ignore[arg-type]
            now=NOW,
        )
    assert refusal.value.kind == kind
    assert refusal.value.detail.endswith(".")


def test_a_program_for_an_earlier_description_of_the_processor_is_to_be_compiled_again(
    cast: Cast, market: Market
) -> None:
    program = market.program(cast.organisation, cast.engineer)
    program.target_digest = "e" * 64
    program.save()
    with pytest.raises(Problem, match=r"compiled for an earlier description of lpu \(eeeeeeeeeeee\).*for lpu again\."):
        offer_make(
            organisation=cast.organisation,
            lines=[(program, 1)],
            klass="standard",
            pool=market.lpu,
            window=None,
            now=NOW,
        )


def test_a_host_runs_no_narrower_program_than_the_model(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    program.precision = "int8"
    program.save()
    with pytest.raises(Problem, match="runs models in float32 only") as refusal:
        offer_make(
            organisation=cast.organisation,
            lines=[(program, 1)],
            klass="standard",
            pool=market.host,
            window=None,
            now=NOW,
        )
    assert refusal.value.kind == "precision-not-on-host"
    assert market.host not in pools_fitting(program)


def test_nothing_can_be_quoted_for_a_strangers_program(cast: Cast, market: Market) -> None:
    program = market.program(cast.stranger_organisation, cast.stranger)
    with pytest.raises(Problem) as refusal:
        offer_make(
            organisation=cast.organisation,
            lines=[(program, 1)],
            klass="standard",
            pool=market.lpu,
            window=None,
            now=NOW,
        )
    assert refusal.value.status == 404


def test_a_host_pool_is_priced_from_the_compiled_counts_and_timed_as_measured(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    HostMeasurement.objects.create(
        pool=market.host,
        program_digest=program.digest,
        samples=100,
        p50_ns=1_000_000,
        p95_ns=2_000_000,
        p99_ns=3_000_000,
        hardware="a CPU",
        measured_at=NOW,
    )
    offer = offer_make(
        organisation=cast.organisation,
        lines=[(program, 1000)],
        klass="standard",
        pool=market.host,
        window=None,
        now=NOW,
    )
    assert Fraction(offer.document["device_seconds"]) == 2
    assert Decimal(offer.document["net"]) == Decimal("0.01408")
    assert any("measured, not proven" in said for said in offer.document["assumptions"])


def test_the_database_refuses_to_change_a_quote(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    quote = quote_create(
        organisation=cast.organisation, lines=[(program, 10)], klass="standard", pool=market.lpu, actor=None, now=NOW
    )
    for change in ({"worst": Decimal(1)}, {"valid_until": NOW + timedelta(days=9)}, {"document": {}}):
        with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
            Quote.objects.filter(pk=quote.pk).update(**change)
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        quote.delete()
