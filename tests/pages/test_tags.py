"""The tags that pages are built from."""

from __future__ import annotations

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
    assert sales.contract_title(lines, "02ac83c8-da7e") == "contract 02ac83c8"
