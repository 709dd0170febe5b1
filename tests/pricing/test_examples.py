"""The worked examples that everybody may read."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import compiler
from apps.pricing.examples import FILE, examples
from apps.pricing.rating import Counts, Terms, book_from_json, rate
from apps.pricing.seed import shipped
from apps.registry.selectors import SAMPLES

NOW = datetime(2026, 11, 27, 14, 0, tzinfo=UTC)


def test_the_counts_are_those_of_the_samples_as_compiled_today() -> None:
    document = json.loads(FILE.read_text())
    assert [one["model"] for one in document["samples"]] == [one.slug for one in SAMPLES]
    for sample, row in zip(SAMPLES, document["samples"], strict=True):
        for target, counted in row["counts"].items():
            graph = compiler.load(str(sample.model_path), dims=row["dims"])
            found = compiler.compile(graph, target=target, precision=document["precision"]).resources
            assert counted == {"operations": found.operations, "cycles": found.interval}


def test_each_price_is_what_the_book_charges_for_a_million_inferences() -> None:
    book = book_from_json(shipped(2))
    found = examples(book, now=NOW)
    assert len(found) == 6
    first, counts = found[0], json.loads(FILE.read_text())["samples"][0]["counts"]["lpu"]
    rating = rate(
        book=book,
        counts=Counts(counts["operations"], counts["cycles"]),
        executions=10**6,
        terms=Terms("lpu", "float32", "standard", instant=NOW),
    )
    assert (first.day, first.billed_operations) == (rating.amount, rating.billed_operations)
    assert all(one.night is not None and one.night < one.day for one in found)


def test_a_book_that_sells_nothing_off_peak_has_no_price_for_tonight() -> None:
    document = shipped(2)
    document["classes"]["off_peak"]["offered"] = False
    assert {one.night for one in examples(book_from_json(document), now=NOW)} == {None}
