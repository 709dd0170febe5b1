"""What cannot be bought is refused where it is entered, with a sentence beside it; what was typed stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.planner.services import plan_create
from apps.planner.solver import Requirements
from apps.sales.models import Commitment, OrganisationStanding, Quote
from apps.sales.plans import plan_until_check
from apps.sales.services import quote_accept, quote_create
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market, seen
from tests.sales.tenancy import a_plan_of, a_quote_of, a_request_of

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
NONSENSE = ["", "-5", "0", "1" + "0" * 17, "letters", "🚀", "x" * 10_000, "٥٢", "1e9", "\x00", "1.5"]


def _quote(cast: Cast, market: Market, length: timedelta, *, executions: int = 1_000_000) -> Quote:
    return quote_create(
        organisation=cast.organisation,
        lines=[(market.program(cast.organisation, cast.engineer), executions)],
        klass="standard",
        pool=market.lpu,
        window=(NOW, NOW + length),
        actor=None,
        now=NOW,
    )


def test_a_window_that_never_holds_the_work_is_refused_before_a_quote_is_made(cast: Cast, market: Market) -> None:
    with pytest.raises(Problem, match=r"The work takes .* of device time, but the window is only 1") as refused:
        _quote(cast, market, timedelta(microseconds=1))
    assert refused.value.kind == "window"
    assert not Quote.objects.exists()
    assert _quote(cast, market, timedelta(hours=1)).document["reservation"]


def test_work_that_fits_side_by_side_on_the_devices_is_quoted(cast: Cast) -> None:
    """The window is shorter than the work, which is divided over two devices."""
    market = open_market(devices=2)
    whole = _quote(cast, market, timedelta(days=1), executions=10_000_000)
    seconds = float(Fraction(whole.document["device_seconds"]))
    quote = _quote(cast, market, timedelta(seconds=seconds * 0.8), executions=10_000_000)
    assert len({one["device"] for one in quote.document["reservation"]}) == 2
    with pytest.raises(Problem, match="End the window later, or buy less"):
        _quote(cast, market, timedelta(seconds=seconds * 0.4), executions=10_000_000)


def test_the_builder_prices_work_that_never_fits_but_offers_no_quote_of_it(
    cast: Cast, market: Market, as_user: AsUser
) -> None:
    program, now = market.program(cast.organisation, cast.engineer), timezone.now()
    data = {
        "program": program.pk,
        "volume": 10_000_000,
        "start": (now + timedelta(hours=1)).isoformat(),
        "end": (now + timedelta(hours=1, seconds=1)).isoformat(),
    }
    page = as_user(cast.engineer).get("/quotes/new/preview", data).content.decode()
    assert "Window too short" in page
    assert "price-strip-now" in page
    assert 'id="make-quote"' not in page


@pytest.mark.parametrize("text", NONSENSE)
def test_a_volume_that_is_none_is_named_beside_its_field_and_makes_no_quote(
    cast: Cast, market: Market, as_user: AsUser, text: str
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    data = {"program": program.pk, "volume": text}
    for answer in (client.get("/quotes/new/preview", data), client.get("/quotes/new", data)):
        if "\x00" in text:
            assert answer.status_code == 400  # no address has a NUL
            continue
        page = answer.content.decode()
        assert 'id="error-volume"' in page
        assert "Enter a whole number of executions from 1 to 1,000,000,000,000." in page
    assert client.post("/quotes/new", data).status_code == 422
    assert not Quote.objects.exists()


@pytest.mark.parametrize("field", ["start", "end"])
@pytest.mark.parametrize(
    "text", ["letters", "🚀", "x" * 10_000, "٢٠٢٦-11-30T10:00", "0001-01-01T00:00", "-5", "2026-02-30T10:00"]
)
def test_a_time_that_is_none_is_named_beside_the_window(
    cast: Cast, market: Market, as_user: AsUser, field: str, text: str
) -> None:
    program = market.program(cast.organisation, cast.engineer)
    page = as_user(cast.engineer).get("/quotes/new", {"program": program.pk, field: text})
    assert page.status_code == 200
    assert page.context["refusal"].kind == "window"
    assert len(page.content) < 200_000


def test_a_start_that_has_passed_is_named_with_the_price_for_now(cast: Cast, market: Market, as_user: AsUser) -> None:
    program = market.program(cast.organisation, cast.engineer)
    past = (timezone.now() - timedelta(hours=2)).isoformat()
    page = as_user(cast.engineer).get("/quotes/new/preview", {"program": program.pk, "volume": 10, "start": past})
    assert "has passed. This price is for work that starts now." in page.content.decode()


def test_a_plan_whose_time_is_over_says_so(cast: Cast, market: Market, as_user: AsUser) -> None:
    now = timezone.now()
    program = market.program(cast.organisation, cast.engineer)
    plan = plan_create(
        subject=program.model_version,
        requirements=Requirements(100),
        actor=cast.engineer,
        now=now - timedelta(days=2),
        until=now - timedelta(days=1),
    )
    client = as_user(cast.engineer)
    for path in (f"/quotes/new?plan={plan.pk}", f"/quotes/new/preview?plan={plan.pk}&volume=100"):
        assert "UTC. Make a new plan with a later time." in client.get(path).content.decode(), path
    answer = client.post("/api/v1/quotes", {"plan": str(plan.pk)}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (409, "plan-over")


def test_the_time_of_a_plan_is_over_only_without_a_later_end() -> None:
    until, now = NOW - timedelta(hours=1), NOW
    plan_until_check(None, end=None, now=now)
    plan_until_check(until, end=now + timedelta(hours=1), now=now)
    plan_until_check(now + timedelta(hours=1), end=None, now=now)
    for end in (None, until):
        with pytest.raises(Problem, match="had to be done by"):
            plan_until_check(until, end=end, now=now)


def test_a_plan_that_was_bought_names_its_contract_instead_of_inviting_again(cast: Cast, as_user: AsUser) -> None:
    plan, client = a_plan_of(cast), as_user(cast.owner)
    assert "This plan was bought" not in client.get(f"/plans/{plan.pk}/hold").content.decode()
    page = client.get(f"/quotes/new?plan={plan.pk}")
    made = client.post("/quotes/new", dict(page.context["make"]))
    quote = Quote.objects.get(plan_id=plan.pk)
    assert made.status_code == 302
    contract = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.owner, now=timezone.now())
    part = client.get(f"/plans/{plan.pk}/hold").content.decode()
    assert "This plan was bought" in part
    assert contract.reference in part
    assert "may still be accepted" not in part


def test_the_page_of_a_waiting_request_asks_again_by_itself(cast: Cast, as_user: AsUser) -> None:
    request, client = a_request_of(cast), as_user(cast.owner)
    page = client.get(f"/standing/{request.pk}").content.decode()
    assert 'hx-select="#standing-state"' in page
    client.post(f"/standing/{request.pk}/withdraw")
    assert 'hx-select="#standing-state"' not in client.get(f"/standing/{request.pk}").content.decode()


@pytest.mark.parametrize("text", NONSENSE)
def test_a_limit_that_is_none_stays_in_its_field_with_the_reason(
    cast: Cast, market: Market, as_user: AsUser, text: str
) -> None:
    path = f"/buying/{cast.organisation.pk}"
    answer = as_user(cast.admin).post(path, {"pool_share": text, "credit": text})
    if answer.status_code == 302:
        row = OrganisationStanding.objects.get(pk=cast.organisation.pk)
        assert text == "" or row.pool_share is not None
        return
    page = answer.content.decode()
    assert answer.status_code == 422
    assert f"Not saved for {cast.organisation.name}" in page
    assert "form-error" in page


def test_a_commitment_is_not_entered_at_the_factors_of_another_book(
    cast: Cast, market: Market, as_user: AsUser
) -> None:
    client = as_user(cast.owner)
    data = {"kind": "month", "minimum": "100"}
    answer = client.post("/commitments", {**data, "book": "0" * 64})
    assert answer.status_code == 409
    assert "Nothing was entered" in answer.content.decode()
    assert not Commitment.objects.exists()
    digest = client.get("/commitments").context["book_digest"]
    assert client.post("/commitments", {**data, "book": digest}).status_code == 302


@pytest.mark.parametrize("text", [one for one in NONSENSE if one])
def test_a_share_link_for_impossible_days_is_refused(cast: Cast, as_user: AsUser, text: str) -> None:
    quote, client = a_quote_of(cast), as_user(cast.engineer)
    page = client.post(f"/quotes/{quote.pk}/share", {"days": text}, follow=True).content.decode()
    assert "Enter 1 to 365 days for a share link." in page
    assert Quote.objects.get(pk=quote.pk).share_token is None


def test_the_price_strip_follows_the_price_and_says_when_there_is_none(
    cast: Cast, market: Market, as_user: AsUser
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    data: dict[str, Any] = {"program": program.pk, "volume": 2_000_000, "previous": "5.632"}
    page = client.get("/quotes/new/preview", data).content.decode()
    strip = page[page.index('id="price-strip"') :].split("</section>")[0]
    assert 'hx-swap-oob="true"' in strip
    assert "11.26" in strip
    assert "+100.0" in strip
    gone = client.get("/quotes/new/preview", {**data, "volume": "lots"}).content.decode()
    assert "No price" in gone[gone.index('id="price-strip"') :].split("</section>")[0]


def test_a_double_click_makes_one_contract(cast: Cast, as_user: AsUser) -> None:
    quote, client = a_quote_of(cast), as_user(cast.owner)
    answers = [client.post(f"/quotes/{quote.pk}/accept") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [302, 409]
    assert "has become a contract" in answers[1].content.decode()
    assert "Open contract C-0001" in answers[1].content.decode()


def test_a_name_that_is_refused_makes_no_quote_and_stays_in_its_field(
    cast: Cast, market: Market, as_user: AsUser
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    data = seen(client, {"program": program.pk, "volume": 10, "name": "y" * 81})
    answer = client.post("/quotes/new", data)
    assert answer.status_code == 422
    assert "at most 80 characters" in answer.content.decode()
    assert f'value="{"y" * 81}"' in answer.content.decode()
    assert not Quote.objects.exists()
