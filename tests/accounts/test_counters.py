"""Numbers of quotes, contracts and jobs: each organisation counts for itself, nothing is counted twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.counters import Reference, name_clean, number_next, number_parse, number_text
from apps.accounts.models import Counter, NumberKind, Organisation
from apps.accounts.problems import Problem
from tests.cast import Cast


def _next(organisation: Organisation, kind: NumberKind = NumberKind.QUOTE) -> int:
    return number_next(organisation_id=organisation.pk, kind=kind)


@pytest.mark.django_db
def test_each_organisation_counts_each_kind_from_one(cast: Cast) -> None:
    assert [_next(cast.organisation) for _ in range(3)] == [1, 2, 3]
    assert _next(cast.organisation, NumberKind.JOB) == 1
    assert _next(cast.stranger_organisation) == 1
    assert Counter.objects.count() == 3


@pytest.mark.django_db
def test_a_number_whose_transaction_failed_is_given_to_the_next(cast: Cast) -> None:
    with transaction.atomic():
        assert _next(cast.organisation) == 1
        transaction.set_rollback(True)
    assert _next(cast.organisation) == 1


@pytest.mark.django_db(transaction=True)
def test_numbers_drawn_at_the_same_time_differ(cast: Cast) -> None:
    def draw(_: int) -> int:
        try:
            return _next(cast.organisation)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(draw, range(20))) == list(range(1, 21))


@given(st.sampled_from(NumberKind), st.integers(1, 2**31 - 1))
def test_a_written_number_reads_as_itself(kind: NumberKind, number: int) -> None:
    assert number_parse(number_text(kind, number)) == Reference(kind, number)


@pytest.mark.parametrize("text", ["\u200b", "\u2060\u200d", "\ufe0f"])
def test_a_name_that_nobody_can_see_is_refused(text: str) -> None:
    with pytest.raises(Problem, match="at least one visible character"):
        name_clean(text)
    assert name_clean(f" a{text}") == f"a{text}"


def test_numbers_have_four_digits_or_more() -> None:
    assert number_text(NumberKind.QUOTE, 7) == "Q-0007"
    assert number_text(NumberKind.CONTRACT, 12345) == "C-12345"


def test_numbers_are_read_as_people_write_them() -> None:
    assert number_parse(" q-7 ") == number_parse("Q0007") == Reference(NumberKind.QUOTE, 7)
    for text in ("", "Q", "7", "X-1", "Q-0", "Q--1", "Q-99999999999", "Q-2147483648", "Q-1.5", "Q-٣", "Q-1 Q-2"):
        assert number_parse(text) is None, text


def test_a_name_is_trimmed_and_may_be_empty() -> None:
    assert name_clean("  Nightly batch 🚀 ") == "Nightly batch 🚀"
    assert name_clean("  ") == ""
    assert name_clean("é" * 80) == "é" * 80


@pytest.mark.parametrize("text", ["x" * 81, "two\nlines", "a\x00b", "tab\there", "\ud800", "a\u2028b", "a\u202eb"])
def test_a_name_that_cannot_be_shown_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refused:
        name_clean(text)
    assert (refused.value.status, refused.value.kind) == (422, "name")
