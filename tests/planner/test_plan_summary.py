"""The page of a plan explains its result before the table, and stays readable with many candidates."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.accounts.models import Organisation
from apps.figures import plain
from apps.planner.models import Plan
from apps.planner.plan_rows import DRAWN, DRAWN_INFEASIBLE, rows_of
from apps.planner.plan_summary import summary_lines
from apps.planner.solver import Answers, Demand, Evaluated, Placed, Requirements, Variant, solve

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def candidate(title: str, price: str, *, reasons: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    """A candidate as plans store it: 1,000 items, so that its price is the price per thousand."""
    row: dict[str, Any] = {
        "kind": "single",
        "title": title,
        "pool": "lpu-a",
        "pool_name": "LPU A",
        "models": [{"version": "0", "name": name} for name in title.split(" then ")],
        "thresholds": [],
        "shares": [],
        "threshold": None,
        "share": None,
        "accuracy": "9/10",
        "latency": "1/1000",
        "duration": "1",
        "completion": None,
        "certainty": "exact",
        "price": price,
        "price_per_thousand": price,
        "feasible": not reasons,
        "reasons": list(reasons),
        "gaps": {},
        "on_frontier": False,
    }
    return {**row, **changes}


def plan_of(*candidates: dict[str, Any], changes: Any = (), **basis: Any) -> Plan:
    """A plan of 1,000 items that is not stored."""
    return Plan(
        organisation=Organisation(time_zone="UTC"),
        created_at=NOW,
        requirements={"items": 1000, "objective": "cost", "accuracy": None},
        candidates=list(candidates),
        chosen=candidates[0] if candidates[0]["feasible"] else None,
        changes=list(changes),
        basis={"currency": {"code": "EUR", "exponent": 2}, **basis},
    )


def lines(plan: Plan) -> dict[str, str]:
    """The lines by their labels, each as one text."""
    return {line.label: plain(" ".join(line.sentences)) for line in summary_lines(plan)}


def test_three_lines_say_what_why_and_what_would_cost_less() -> None:
    cascade = candidate(
        "digits-small then digits-batch",
        "2",
        kind="cascade",
        thresholds=["0.61"],
        shares=["31/250"],
    )
    other = candidate("digits-batch", "3")
    cheaper = candidate("digits-small", "1", reasons=("The proven accuracy is too low.",), gaps={"accuracy": "47/50"})
    found = lines(plan_of(cascade, other, cheaper, cheaper_classes=["Batch"]))
    assert found == {
        "Recommended": "digits-small then digits-batch on lpu-a. Runs digits-small first; below 61 % confidence falls back to "
        "digits-batch: at most 12.40 % of items, with 95 % confidence.",
        "Why": "Cheapest of the 2 that meet all requirements, out of 3 candidates. The next candidate is digits-batch on lpu-a, "
        "which costs 50.0 % more.",
        "To pay less": "If you allow an accuracy of at least 94.00 %, digits-small on lpu-a costs EUR 1.00, 50.0 % less. "
        "Cheaper classes of service: Batch.",
    }


def test_a_runner_up_of_the_same_total_price_does_not_cost_more() -> None:
    best, other = candidate("net", "1", price_per_thousand="1/100"), candidate("large", "1", price_per_thousand="3/200")
    said = lines(plan_of(best, other))["Why"]
    assert said.endswith(
        "The next candidate is large on lpu-a: its price per thousand items is 50.0 % higher, its total price the same."
    )


def test_the_minimum_of_a_contract_is_named_where_it_is_the_price() -> None:
    found = lines(plan_of(candidate("net", "1", price_per_thousand="1/100")))
    assert "is the minimum price of a contract" in found["To pay less"]
    assert found["Why"] == "This is the only candidate, and it meets all requirements."


def test_without_a_feasible_candidate_the_closest_and_the_change_are_named() -> None:
    slow = candidate("net", "2", reasons=("One item takes 2 ms; the maximum is 1 ms.",), gaps={"latency": "1/500"})
    change = {"values": {"latency": "1/500"}, "title": "net", "pool": "lpu-a", "price": "2", "candidate": 0}
    found = lines(plan_of(slow, changes=[change], compiling=2))
    assert found["Recommended"] == "No recommendation, because the only candidate does not meet all requirements."
    assert found["Why"] == "The closest candidate is net on lpu-a. One item takes 2 ms; the maximum is 1 ms."
    assert found["To make it feasible"] == (
        "If you allow a latency of 2.00 ms, net on lpu-a is feasible. Price for all items: EUR 2.00. 2 compiles were still "
        "under way when this plan was made. Plan again when the programs are ready."
    )


def test_a_long_list_is_folded_and_the_chart_stays_small() -> None:
    feasible = [candidate(f"good-{n}", str(n + 1), on_frontier=n < 3) for n in range(20)]
    others = [candidate(f"bad-{n}", str(n + 1), reasons=("Too slow.",)) for n in range(24)]
    rows = rows_of(plan_of(*feasible, *others))
    assert len(rows.shown) <= 13
    assert [(title, len(some)) for title, some in rows.folded] == [
        ("Other feasible candidates", 20 - len(rows.shown)),
        ("Infeasible single programs", 24),
    ]
    assert all(row["reasons"] for row in rows.folded[1][1])
    assert len(rows.drawn) == DRAWN + DRAWN_INFEASIBLE
    assert {row["title"] for row in rows.shown} <= {row["title"] for row in rows.drawn} | {
        row["title"] for row in rows.shown[DRAWN:]
    }
    assert f"{44 - len(rows.drawn)} more candidates are listed below" in rows.drawn_note


def answers(right: int, wrong: int, *, unsure: str) -> Answers:
    confidence = (Decimal("0.9"),) * right + (Decimal(unsure),) * wrong
    return Answers((True,) * right + (False,) * wrong, confidence, (0,) * right + (1,) * wrong)


def variant(key: str, evaluated: Evaluated | None = None) -> Variant:
    time = Fraction(1, 1000)
    return Variant(key, key, "p", Decimal, evaluated, latency=time, interval=time, program=key)


def test_a_cascade_whose_threshold_reads_as_nothing_is_not_offered() -> None:
    """The small model is wrong only where its confidence is 0: the next confidence above, the threshold, is 0.00 %."""
    small = Evaluated(
        Answers((True,) * 8 + (False,) * 2, (Decimal("0.00001"),) * 8 + (Decimal(0),) * 2, (0,) * 8 + (1,) * 2),
        answers(90, 10, unsure="0"),
        "p",
    )
    large = Evaluated(answers(10, 0, unsure="0.9"), answers(99, 1, unsure="0.9"), "p")
    solution = solve([variant("small", small), variant("large", large)], Requirements(items=1000))
    assert {one.kind for one in solution.candidates} == {"single"}


def test_too_few_devices_do_not_hide_a_missing_evaluation() -> None:
    def full(demand: Demand) -> Placed:
        return Placed(None, f"{demand.pool} is full.")

    (found,) = solve([variant("net")], Requirements(items=10, accuracy=Fraction(9, 10)), full).candidates
    assert found.reasons == ("p is full.", "The program was not evaluated, so no accuracy can be promised.")
