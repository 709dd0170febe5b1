"""A promise is spoken of by the metric's own name, in its unit, and on the side on which it is true."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from apps.accounts.models import User
from apps.figures import plain
from apps.planner.forms import PlanForm
from apps.planner.metrics import Metric
from apps.planner.models import Task
from apps.planner.score_format import score_format_of
from apps.planner.selectors import plan_classes
from apps.planner.services import plan_create
from apps.planner.solver import Answers, Evaluated, Requirements, Variant, solve
from tests.cast import Cast
from tests.sales.market import open_market
from tests.tiers import some

UNIT = Decimal("0.25")


@pytest.mark.parametrize(
    ("metric", "heading", "stated", "said"),
    [
        (
            Metric("accuracy"),
            "Accuracy, at least",
            "90",
            "The proven accuracy is 80.00 %; 90.00 % is required.",
        ),
        (Metric("f1"), "Macro F1, at least", "90", "The proven macro F1 is 80.00 %; 90.00 % is required."),
        (
            Metric("agreement"),
            "Agreement with float32, at least",
            "90",
            "The proven agreement with float32 is 80.00 %; 90.00 % is required.",
        ),
        (
            Metric("close", limit=UNIT),
            "Share of items within 0.25 of float32, at least",
            "90",
            "The proven share of items within 0.25 of float32 is 80.00 %; 90.00 % is required.",
        ),
        (
            Metric("snr", limit=Decimal(30)),
            "Share of items with 30 dB over float32, at least",
            "90",
            "The proven share of items with 30 dB over float32 is 80.00 %; 90.00 % is required.",
        ),
        (
            Metric("mean_error", limit=Decimal(5)),
            "Mean error, at most",
            "0.5",
            "The proven mean error is at most 1; at most 0.5 is required.",
        ),
    ],
)
def test_a_reason_names_the_metric_and_holds_what_was_stated(
    metric: Metric, heading: str, stated: str, said: str
) -> None:
    """The bound is 4/5 in each case; stated is 90 per cent, or an error of 0.5 that stands for 1 - 0.5 / 5."""
    measure = score_format_of(metric.title)
    answers = Answers.of([1], [1], ["1"])
    program = Variant(
        "a",
        "a",
        "lpu-a",
        Decimal,
        Evaluated(answers, answers, "", bound=lambda _error: Fraction(4, 5)),
        latency=Fraction(1),
        interval=Fraction(1),
    )
    wanted = Requirements(10, accuracy=measure.share_of(Fraction(stated)), metric=metric.title)
    (found,) = solve([program], wanted).candidates
    assert (measure.heading, plain(found.reasons[0])) == (heading, said)
    loose = Requirements(
        10, accuracy=measure.share_of(Fraction("70" if measure.limit is None else "1.5")), metric=metric.title
    )
    assert solve([program], loose).candidates[0].feasible


@pytest.mark.django_db
def test_the_form_and_the_page_say_error_at_most_and_keep_the_share(
    cast: Cast, as_user: Callable[[User], Client]
) -> None:
    market, now = open_market(), timezone.now()
    task = Task(organisation=cast.organisation, metric="mean_error", limit=Decimal(5), output="y")
    stated = {"items": 10, "accuracy": "0.5", "latency_unit": "1", "klass": "standard"}
    form = PlanForm(task, plan_classes(now=now), stated)
    assert form.is_valid(), form.errors
    assert (form.fields["accuracy"].label, form.requirements().accuracy) == (
        "Maximum mean error of y",
        Fraction(9, 10),
    )
    program = market.program(cast.organisation, cast.engineer)
    plan = plan_create(subject=program.model_version, requirements=form.requirements(), actor=cast.engineer, now=now)
    plan.basis["metric"] = Metric("mean_error", limit=Decimal(5)).title
    for row in plan.candidates:
        row["accuracy"] = "4/5"
    plan.save()
    page = plain(as_user(cast.engineer).get(f"/plans/{plan.pk}").content.decode())
    assert "Mean error, at most</th>" in page
    assert "<dt>Mean error</dt><dd>at most 0.5</dd>" in page
    assert '<td class="num">1</td>' in page
    assert "ccuracy" not in page.replace("no accuracy can be promised", "")


@settings(max_examples=some(100))
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**9))
def test_an_error_falls_as_the_share_grows_and_is_never_told_too_small(low: int, high: int, thousandths: int) -> None:
    assume(low < high)
    a, b, limit = Fraction(low, 10**6), Fraction(high, 10**6), Decimal(thousandths) / 1000
    measure = score_format_of(Metric("mean_error", limit=limit).title)
    errors = [Fraction(measure.text(share).replace(",", "")) for share in (a, b)]
    assert errors[0] >= errors[1]
    for share, error in zip((a, b), errors, strict=True):
        assert Fraction(limit) * (1 - share) <= error <= Fraction(limit) * (1 - share) + Fraction(limit) / 1000
        assert measure.share_of(error) <= share
