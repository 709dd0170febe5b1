"""The tags that pages are built from."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from apps.pages.templatetags import takt
from apps.sales.templatetags import sales

DIGEST = "e52b6362aef082b3ba37d51fd6f26fb881b8c1ca59a9da9ee7e2882897497905aa"[:64]


def test_digests_and_identifiers_are_cut_and_kept_whole_as_title() -> None:
    text = takt.short_ids(f"program: {DIGEST}; contract: 02ac83c8-da7e-4602-9fd1-1b83ccccf564")
    assert f'<code title="{DIGEST}">{DIGEST[:12]}</code>' in text
    assert '<code title="02ac83c8-da7e-4602-9fd1-1b83ccccf564">02ac83c8</code>' in text


def test_what_people_wrote_is_escaped_before_identifiers_are_marked() -> None:
    assert takt.short_ids("<b>name</b> & more") == "&lt;b&gt;name&lt;/b&gt; &amp; more"


def test_a_contract_of_an_invoice_is_called_by_what_it_runs() -> None:
    lines = [
        {"contract": "one", "program": {"model": "small"}},
        {"contract": "one", "program": {"model": "large"}},
        {"contract": "two", "program": {"model": "other"}},
        {"contract": "one", "program": {"model": "small"}},
    ]
    assert sales.contract_title(lines, "one") == "small + large"
    assert sales.contract_title(lines, "02ac83c8-da7e") == "Contract", "its number stands beside it"


def test_a_copy_button_carries_the_whole_value_and_has_a_name() -> None:
    shown = takt.copying.digest(DIGEST)
    assert f'data-copy="{DIGEST}"' in shown
    assert f">{DIGEST[:12]}</code>" in shown
    assert 'aria-label="Copy the whole digest"' in shown


def test_an_identifier_is_cut_to_eight_characters_and_copied_whole() -> None:
    shown = takt.copying.identifier("02ac83c8-da7e-4602-9fd1-1b83ccccf564")
    assert ">02ac83c8</code>" in shown
    assert 'data-copy="02ac83c8-da7e-4602-9fd1-1b83ccccf564"' in shown


def test_a_snippet_escapes_its_text_and_lists_stand_line_by_line() -> None:
    assert "&lt;b&gt;" in takt.copying.snippet("<b>")
    assert "one\ntwo" in takt.copying.snippet(["one", "two"])


def test_nothing_to_copy_has_no_button() -> None:
    assert "<button" not in takt.copying.digest(None)
    assert "<button" not in takt.copying.identifier(None)


def test_a_bar_beyond_its_limit_has_the_colour_of_a_warning() -> None:
    assert "share-bar-over" in takt.bar(Fraction(3), limit=True)
    assert "share-bar-over" not in takt.bar(Fraction(1), limit=True)
    assert "share-bar-over" not in takt.bar(Fraction(3)), "no limit: a minimum that is exceeded is no fault"


def test_a_note_that_repeats_the_value_is_left_out() -> None:
    amount = Decimal("0.010"), "EUR"
    repeated = takt.metric("Quoted", takt.amounts.money(*amount), note=takt.amounts.money_exact(*amount))
    assert repeated["note"] == ""
    longer = takt.amounts.money_exact(Decimal("0.0123"), "EUR")
    assert takt.metric("Quoted", takt.amounts.money(*amount), note=longer)["note"] == longer
