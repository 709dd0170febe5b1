from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.problems import Problem
from apps.pricing.amounts import amount_check, amount_entered, amount_typed, currencies_offered, currency_chosen
from apps.pricing.rating import Currency
from apps.pricing.services import pricebook_publish
from tests.pricing.rating.books import document

CURRENCIES = [Currency("JPY", 0), Currency("EUR", 2), Currency("KWD", 3)]
START = datetime(2026, 1, 1, tzinfo=UTC)
currencies = st.sampled_from(CURRENCIES)


@given(currencies, st.integers(0, 10**15), st.integers(0, 12))
def test_an_amount_has_at_most_the_places_of_its_currency(currency: Currency, digits: int, places: int) -> None:
    amount = Decimal(digits).scaleb(-places)
    text = f"{amount:f}"
    if places <= currency.exponent:
        assert amount_entered(text, currency=currency) == amount
        amount_check(amount, currency=currency)
        return
    with pytest.raises(Problem, match=rf"^{currency.code} has (no|2|3) decimal places; write [0-9.]+\.$") as refused:
        amount_entered(text, currency=currency)
    advice = refused.value.detail.removesuffix(".").rpartition(" ")[2]
    assert 0 < amount_entered(advice, currency=currency) <= max(amount, Decimal(1).scaleb(-currency.exponent))


@given(currencies, st.integers(10**15 + 1, 10**20 - 1))
def test_an_amount_above_the_limit_is_refused_with_the_limit(currency: Currency, amount: int) -> None:
    with pytest.raises(Problem, match=rf"^Enter at most 1,000,000,000,000,000 {currency.code}\.$"):
        amount_entered(str(amount), currency=currency)


@given(currencies, st.decimals(0, 10**12, places=6))
def test_a_computed_amount_is_checked_by_its_value(currency: Currency, amount: Decimal) -> None:
    if amount == round(amount, currency.exponent):
        amount_check(amount, currency=currency)
    else:
        with pytest.raises(Problem, match="decimal places; write"):
            amount_check(amount, currency=currency)


@pytest.mark.parametrize(
    ("text", "currency", "said"),
    [
        ("150.50", CURRENCIES[0], "JPY has no decimal places; write 150."),
        ("150.0", CURRENCIES[0], "JPY has no decimal places; write 150."),
        ("0.126", CURRENCIES[1], "EUR has 2 decimal places; write 0.12."),
        ("0.1264", CURRENCIES[2], "KWD has 3 decimal places; write 0.126."),
        ("0.001", CURRENCIES[1], "EUR has 2 decimal places; write 0.01."),
        ("1e3", CURRENCIES[1], "Enter an amount in EUR, such as 250.00."),
        ("-1", CURRENCIES[0], "Enter an amount in JPY, such as 250."),
        ("١٢", CURRENCIES[2], "Enter an amount in KWD, such as 250.000."),
        ("", CURRENCIES[1], "Enter an amount in EUR, such as 250.00."),
    ],
)
def test_a_refusal_says_what_to_write(text: str, currency: Currency, said: str) -> None:
    with pytest.raises(Problem) as refused:
        amount_entered(text, currency=currency)
    assert (refused.value.status, refused.value.kind, refused.value.detail) == (422, "amount", said)


@pytest.mark.parametrize(
    ("text", "amount"), [(" 1,234.50 ", "1234.50"), ("1,234,567", "1234567"), ("12", "12"), ("0.5", "0.5")]
)
def test_commas_part_thousands(text: str, amount: str) -> None:
    assert amount_typed(text, currency=CURRENCIES[1]) == Decimal(amount)


@pytest.mark.parametrize("text", ["1,50", "1,2345", "12,34.5", ",500", "1,,500", "1.234,50"])
def test_a_comma_for_the_decimals_is_refused_rather_than_dropped(text: str) -> None:
    """Without it "1,50" would be 150."""
    with pytest.raises(Problem, match=r"Use a comma between thousands .* for example 1\.50\.$"):
        amount_typed(text, currency=CURRENCIES[1])


@pytest.mark.django_db
def test_money_is_entered_in_a_currency_that_a_book_has() -> None:
    pricebook_publish(document=document(), effective_from=START, now=START)
    later = datetime(2026, 6, 1, tzinfo=UTC)
    change = {"version": 2, "currency": {"code": "JPY", "exponent": 0}}
    pricebook_publish(document=document(lambda d: d.update(change)), effective_from=later, now=START)
    assert currencies_offered(now=START) == [CURRENCIES[1], CURRENCIES[0]]
    assert currencies_offered(now=later) == [CURRENCIES[0], CURRENCIES[1]]
    assert currency_chosen(None, now=later) == CURRENCIES[0]
    assert currency_chosen("EUR", now=later) == CURRENCIES[1]
    with pytest.raises(Problem, match=r"No price book is in KWD; choose JPY, EUR\."):
        currency_chosen("KWD", now=later)
