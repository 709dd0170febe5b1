"""Plans of real programs: the small and the large digits model and their cascade on every pool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.compilation.models import CompileJob, Program
from apps.figures import percent_format
from apps.fleet.models import HostMeasurement, Pool
from apps.fleet.seed import fleet_seed
from apps.planner import selectors, services, variants
from apps.planner.models import Plan
from apps.planner.solver import Requirements, solve
from apps.pricing.models import PriceBook
from apps.pricing.rating import Counts, Terms, book_from_json, class_default, classes_plannable, rate
from apps.pricing.seed import seed as pricing_seed
from apps.pricing.selectors import book_in_force, document_of
from apps.registry.models import ModelVersion
from tests.cast import Cast
from tests.compilation.helpers import NOW, ask, compiled, run_remembered, sample_of

AsUser = Callable[[User], Client]


@pytest.fixture(scope="module")
def shared_market(shared_cast: Cast) -> dict[str, ModelVersion]:
    """Pools, a price book, and the two digits models compiled for both processor versions."""
    cast = shared_cast
    fleet_seed(now=NOW)
    pricing_seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    versions = {slug: sample_of(cast, slug) for slug in ("digits-small", "digits-large")}
    for slug in versions:
        for target in ("lpu", "lpu2"):
            compiled(cast, slug, target=target)
    return versions


@pytest.fixture
def market(cast: Cast, shared_market: dict[str, ModelVersion]) -> dict[str, ModelVersion]:
    return deepcopy(shared_market)


def plan(cast: Cast, version: ModelVersion, klass: str = "standard", **stated: Any) -> Plan:
    return services.plan_create(
        subject=version,
        requirements=Requirements(**{"items": 10_000, **stated}),
        klass=klass,
        actor=cast.engineer,
        now=NOW,
    )


def row_of(found: Plan, title: str, pool: str) -> dict[str, Any]:
    (row,) = [row for row in found.candidates if (row["title"], row["pool"]) == (title, pool)]
    return row


def test_every_model_and_the_cascade_are_tried_on_every_pool(cast: Cast, market: dict[str, ModelVersion]) -> None:
    found = plan(cast, market["digits-large"])
    tried = {(row["title"], row["pool"]) for row in found.candidates}
    singles = {(name, pool) for name in market for pool in ("lpu-a", "lpu2-b", "host-cpu")}
    cascades = {("digits-small then digits-large", pool) for pool in ("lpu-a", "lpu2-b")}
    assert tried == singles | cascades
    assert found.basis["examined"] == found.basis["judged"] == len(tried)


def test_the_price_is_that_of_the_rating_to_the_last_digit(cast: Cast, market: dict[str, ModelVersion]) -> None:
    found = plan(cast, market["digits-large"], klass="priority")
    book = document_of(book_in_force(at=NOW))
    for row in found.candidates:
        if row["price"] is None:
            continue
        pool, lines = Pool.objects.get(slug=row["pool"]), row["lines"]
        total = Decimal(0)
        for line, (program, _) in zip(
            lines, selectors.plan_lines(Plan(organisation=cast.organisation, chosen=row)), strict=True
        ):
            counts = Counts(program.operations, program.interval_cycles)
            terms = Terms(pool.processor_class, "float32", "priority", instant=NOW)
            total += rate(book=book, counts=counts, executions=line["executions"], terms=terms).amount
        assert Decimal(row["price"]) == max(total, book.contract_minimum), "what a quote says"
        assert Fraction(row["price_per_thousand"]) == Fraction(total) / 10


def test_the_latency_is_cycles_over_clock(cast: Cast, market: dict[str, ModelVersion]) -> None:
    found = plan(cast, market["digits-large"])
    row = row_of(found, "digits-large", "lpu-a")
    program, per_item = selectors.plan_lines(Plan(organisation=cast.organisation, chosen=row))[0]
    assert Fraction(row["latency"]) == Fraction(program.latency_cycles, program.clock_hz)
    assert (per_item, row["certainty"]) == (1, "exact")


def test_the_cheapest_that_meets_the_accuracy_is_chosen(cast: Cast, market: dict[str, ModelVersion]) -> None:
    modest = plan(cast, market["digits-large"], accuracy=Fraction(94, 100))
    strict = plan(cast, market["digits-large"], accuracy=Fraction(97, 100))
    assert modest.chosen["title"] == "digits-small"
    assert strict.chosen["title"] in {"digits-large", "digits-small then digits-large"}
    assert Fraction(strict.chosen["accuracy"]) >= Fraction(97, 100)
    refused = row_of(strict, "digits-small", "lpu-a")
    proven = percent_format(Fraction(refused["accuracy"]), 2)
    wanted = percent_format(Fraction(97, 100), 2)
    assert refused["reasons"] == [f"The proven accuracy is {proven}; {wanted} is required."]


def test_fewer_bits_are_a_candidate_without_a_promise_of_accuracy(cast: Cast, market: dict[str, ModelVersion]) -> None:
    version = market["digits-small"]
    job = run_remembered(ask(cast, version, precision="int8"))
    assert job.state == CompileJob.State.DONE, job.error
    free, strict = plan(cast, version), plan(cast, version, accuracy=Fraction(9, 10))
    narrow = row_of(free, "digits-small in int8", "lpu-a")
    whole = row_of(free, "digits-small", "lpu-a")
    assert Fraction(narrow["price_per_thousand"]) < Fraction(whole["price_per_thousand"])
    assert (narrow["accuracy"], narrow["models"][0]["name"]) == (None, "digits-small v1 in int8")
    assert row_of(strict, "digits-small in int8", "lpu-a")["reasons"] == [
        "The program was not evaluated, so no accuracy can be promised."
    ]
    assert strict.chosen["title"] == "digits-small"
    assert not [row for row in free.candidates if row["pool"] == "host-cpu" and "int8" in row["title"]]


def test_the_objective_decides_which_feasible_candidate_is_chosen(
    cast: Cast, as_user: AsUser, market: dict[str, ModelVersion]
) -> None:
    body = {"version_id": str(market["digits-small"].pk), "items": 500}
    client, chosen = as_user(cast.engineer), {}
    for objective in ("cost", "latency", "device_time"):
        made = client.post("/api/v1/plans", {**body, "objective": objective}, content_type="application/json").json()
        feasible = [row for row in made["candidates"] if row["feasible"]]
        chosen[objective] = made["chosen"]
        key = {"cost": "price_per_thousand", "latency": "latency", "device_time": "duration"}[objective]
        assert Fraction(made["chosen"][key]) == min(Fraction(row[key]) for row in feasible)
    assert chosen["cost"] != chosen["latency"], "the cheaper pool is slower"
    page = client.get(f"/plans/{made['id']}").content.decode()
    assert "Least device time of" in page
    refused = client.post("/api/v1/plans", {**body, "objective": "beauty"}, content_type="application/json")
    assert refused.status_code == 422


def test_models_whose_inputs_have_other_names_do_not_work_together(cast: Cast, market: dict[str, ModelVersion]) -> None:
    """A job's inputs go to every program under the same names."""

    def kinds() -> set[str]:
        return {row["kind"] for row in plan(cast, market["digits-large"]).candidates}

    assert kinds() == {"single", "cascade"}
    for program in Program.objects.filter(model_version=market["digits-small"]):
        program.inputs = [{**program.inputs[0], "name": "picture"}]
        program.save(update_fields=["inputs"])
    choice = variants.candidate_models_of_version(market["digits-large"], None)
    choice = replace(
        choice, fits=lambda _program: True
    )  # as a task's data set, which names the one input of each model itself
    book = document_of(book_in_force(at=NOW))
    gathered = variants.variants_collect(models=choice, klass="standard", book=book, instant=NOW)
    assert {c.kind for c in solve(gathered.variants, Requirements(items=5)).candidates} == {"single"}


def test_a_cascade_says_what_a_job_needs_to_run_it(cast: Cast, market: dict[str, ModelVersion]) -> None:
    row = row_of(
        plan(cast, market["digits-small"], accuracy=Fraction(97, 100)), "digits-small then digits-large", "lpu2-b"
    )
    assert (row["kind"], row["outputs"]) == ("cascade", ["probabilities"])
    assert [0 < Decimal(level) < 1 for level in row["thresholds"]] == [True]
    assert len(row["programs"]) == 2
    lines = selectors.plan_lines(Plan(organisation=cast.organisation, chosen=row))
    assert [program.model_version.model.name for program, _ in lines] == ["digits-small", "digits-large"]
    share = lines[1][1]
    assert 0 < share < 1
    assert row["lines"][1]["executions"] == -(-10_000 * share.numerator // share.denominator)
    assert row["lines"][1]["expected"] <= row["lines"][1]["executions"]


def test_a_host_that_was_never_measured_is_infeasible_and_says_so(cast: Cast, market: dict[str, ModelVersion]) -> None:
    row = row_of(plan(cast, market["digits-small"]), "digits-small", "host-cpu")
    assert not row["feasible"]
    assert "has not been measured on host-cpu yet" in row["reasons"][0]


def test_a_measured_host_is_a_candidate_with_its_percentile(cast: Cast, market: dict[str, ModelVersion]) -> None:
    program, _ = selectors.plan_lines(
        Plan(organisation=cast.organisation, chosen=row_of(plan(cast, market["digits-small"]), "digits-small", "lpu-a"))
    )[0]
    HostMeasurement.objects.create(
        pool=Pool.objects.get(slug="host-cpu"),
        program_digest=program.digest,
        samples=100,
        p50_ns=50_000,
        p95_ns=80_000,
        p99_ns=90_000,
        hardware="here",
        measured_at=NOW,
    )
    row = row_of(plan(cast, market["digits-small"]), "digits-small", "host-cpu")
    assert (row["certainty"], Fraction(row["latency"])) == ("measured", Fraction(80, 10**6))
    assert row["price"] is not None


def test_nothing_feasible_proposes_the_cheapest_change(cast: Cast, market: dict[str, ModelVersion]) -> None:
    found = plan(cast, market["digits-large"], accuracy=Fraction(97, 100), latency=Fraction(1, 10**8))
    assert found.chosen is None
    assert found.changes
    change = found.changes[0]
    again = plan(
        cast,
        market["digits-large"],
        accuracy=Fraction(97, 100),
        **{n: Fraction(v) for n, v in change["values"].items()},
    )
    assert again.chosen is not None
    assert Decimal(again.chosen["price"]) == Decimal(change["price"])
    with pytest.raises(Problem, match="Relax a requirement"):
        selectors.plan_lines(found)


def test_a_model_without_alternatives_is_a_plan_too(cast: Cast, market: dict[str, ModelVersion]) -> None:
    market["digits-small"].evaluations.all().delete()
    found = plan(cast, market["digits-small"])
    assert {row["title"] for row in found.candidates} == {"digits-small"}
    assert found.chosen is not None
    assert selectors.plan_volume(found) == 10_000
    assert selectors.plan_pool(found).slug == found.chosen["pool"]


def test_alternatives_must_take_the_same_items(cast: Cast, market: dict[str, ModelVersion]) -> None:
    batch = sample_of(cast, "digits-batch")
    run_remembered(ask(cast, batch, dims={"batch": 8}))
    row = row_of(plan(cast, market["digits-large"]), "digits-batch", "lpu-a")
    assert "this kind of item" in row["reasons"][0]
    found = services.plan_create(
        subject=batch, requirements=Requirements(items=10), dims={"batch": 8}, actor=cast.engineer, now=NOW
    )
    assert row_of(found, "digits-batch", "lpu-a")["feasible"]
    assert not row_of(found, "digits-large", "lpu-a")["feasible"]


def test_lengths_that_were_not_compiled_are_not_answered_with_a_program_of_others(
    cast: Cast, market: dict[str, ModelVersion]
) -> None:
    batch = sample_of(cast, "digits-batch")
    run_remembered(ask(cast, batch, dims={"batch": 8}))

    def of(dims: dict[str, int]) -> Plan:
        return services.plan_create(
            subject=batch, requirements=Requirements(items=10), dims=dims, actor=cast.engineer, now=NOW
        )

    assert not any(row["feasible"] for row in of({"batch": 7}).candidates if row["title"] == "digits-batch")
    for wrong, said in (
        ({}, "Enter a size for the dimension 'batch'"),
        ({"batch": 8, "breadth": 1}, "no variable dimension 'breadth'"),
        ({"batch": 0}, "from 1"),
    ):
        with pytest.raises(Problem, match=said):
            of(wrong)


@pytest.mark.parametrize(
    ("stated", "field"),
    [({"items": 0}, "items"), ({"accuracy": Fraction(2)}, "accuracy"), ({"latency": Fraction(0)}, "latency")],
)
def test_impossible_requirements_are_named(
    cast: Cast, market: dict[str, ModelVersion], stated: dict[str, Any], field: str
) -> None:
    with pytest.raises(Problem) as refused:
        plan(cast, market["digits-small"], **stated)
    assert [error["field"] for error in refused.value.errors] == [field]


@pytest.mark.parametrize("klass", ["guaranteed", "gap_fill", "off_peak", "golden"])
def test_a_class_in_which_no_plan_can_be_made_is_refused(
    cast: Cast, market: dict[str, ModelVersion], klass: str
) -> None:
    with pytest.raises(Problem, match="standard"):
        plan(cast, market["digits-small"], klass=klass)


def test_the_pages_lead_from_model_to_plan(cast: Cast, as_user: AsUser, market: dict[str, ModelVersion]) -> None:
    client, version = as_user(cast.engineer), market["digits-small"]
    assert "digits-large" in client.get(f"/plans/new?version={version.pk}").content.decode()
    body = {
        "version": str(version.pk),
        "items": "1000000",
        "accuracy": "97",
        "latency": "5",
        "latency_unit": "1/1000000",
        "klass": "standard",
    }
    answer = client.post("/plans/new", body)
    assert answer.status_code == 302
    page = client.get(answer["Location"]).content.decode()
    made = Plan.objects.get()
    assert made.requirements["accuracy"] == "97/100"
    assert made.requirements["latency"] == "1/200000"
    assert "Cheapest of" in page
    assert "infeasible" in page
    assert f"plan={made.pk}" in page
    points = json.loads(page.partition('id="frontier-data"')[2].partition(">")[2].partition("<")[0])["points"]
    assert {point["state"] for point in points} == {"chosen", "feasible", "infeasible"} - (
        set() if any(r["feasible"] for r in made.candidates[1:]) else {"feasible"}
    )
    led = {point["row"] for point in points}
    assert led == set(re.findall(r'href="#(way-\d+)"', page)), "the table beside the chart leads to the same rows"
    assert set(re.findall(r'id="(way-\d+)"', page)) == {f"way-{place + 1}" for place in range(len(made.candidates))}
    assert led <= set(re.findall(r'id="(way-\d+)"', page))
    assert made.title in client.get("/plans").content.decode()
    none = client.post("/plans/new", {**body, "latency": "0.000001"})
    assert "To make it feasible" in client.get(none["Location"]).content.decode()
    assert client.post("/plans/new", {**body, "items": "0"}).status_code == 422


def test_the_api_gives_exact_figures(cast: Cast, as_user: AsUser, market: dict[str, ModelVersion]) -> None:
    client = as_user(cast.engineer)
    body = {"version_id": str(market["digits-small"].pk), "items": 500, "accuracy": "0.97"}
    answer = client.post("/api/v1/plans", body, content_type="application/json")
    assert answer.status_code == 201
    made = answer.json()
    assert made["chosen"]["feasible"] is True
    assert client.get(f"/api/v1/plans/{made['id']}").json()["chosen"] == made["chosen"]
    wrong = client.post("/api/v1/plans", {**body, "accuracy": "97"}, content_type="application/json")
    assert (wrong.status_code, wrong["Content-Type"]) == (422, "application/problem+json")


def other_classes(document: dict[str, Any]) -> None:
    """The shipped book with two classes of other names in place of `standard`, `priority` and `batch`."""
    standard = document["classes"]["standard"]
    document["classes"] = {
        "overnight": {**standard, "title": "Overnight", "promise": "Done by morning.", "discount": "0.4"},
        "walk_in": {**standard, "title": "Walk-in", "promise": "Runs when it is its turn."},
        "nights": {**standard, "title": "Nights", "promise": "Runs at night.", "off_peak_only": True},
    }


def test_the_classes_of_service_are_those_of_the_price_book(
    cast: Cast, as_user: AsUser, market: dict[str, ModelVersion]
) -> None:
    book = PriceBook.objects.get()
    document = book.document
    other_classes(document)
    parsed = book_from_json(document)
    assert [one.name for one in classes_plannable(parsed)] == ["walk_in", "overnight"]
    assert class_default(parsed) == "walk_in"
    with connection.cursor() as cursor:  # the guard keeps books that were sold from; here the one book is another
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # nothing may be left to check where a table is altered
        cursor.execute("ALTER TABLE pricing_pricebook DISABLE TRIGGER USER")
        PriceBook.objects.filter(pk=book.pk).update(document=document, digest=parsed.digest)
        cursor.execute("ALTER TABLE pricing_pricebook ENABLE TRIGGER USER")
    client, version = as_user(cast.engineer), market["digits-small"]
    page = client.get(f"/plans/new?version={version.pk}").content.decode()
    assert re.findall(r'<option value="(\w+)"', page.partition('name="klass"')[2].partition("</select>")[0]) == [
        "walk_in",
        "overnight",
    ]
    assert "Overnight: Done by morning." in page
    body = {"version": str(version.pk), "items": "1000", "latency_unit": "1"}
    made = client.post("/plans/new", {**body, "klass": "overnight"})
    assert made.status_code == 302
    assert "<dt>Class of service</dt><dd>Overnight</dd>" in client.get(made["Location"]).content.decode()
    refused = client.post("/plans/new", {**body, "klass": "standard"})
    assert (refused.status_code, "Choose one of the listed classes." in refused.content.decode()) == (422, True)
    asked = {"version_id": str(version.pk), "items": 1000}
    answer = client.post("/api/v1/plans", asked, content_type="application/json")
    assert answer.json()["requirements"]["klass"] == "walk_in"
    wrong = client.post("/api/v1/plans", {**asked, "klass": "standard"}, content_type="application/json")
    assert (wrong.status_code, "Choose one of overnight, walk_in." in wrong.json()["detail"]) == (422, True)
    program = Program.objects.filter(model_version=version).first()
    assert program is not None
    quoted = client.get(f"/quotes/new?program={program.pk}").content.decode()
    assert 'id="id_klass_walk_in" type="radio" name="klass" form="quote-form" value="walk_in" checked' in quoted
    assert client.get(f"/programs/{program.pk}").status_code == 200
