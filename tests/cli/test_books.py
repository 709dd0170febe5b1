"""An invoice over two price books, checked with one of them and with both."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.cli.main import PARTLY, UNUSABLE, WRONG, main
from apps.invoicing.exports import invoice_json
from apps.invoicing.services import invoice_issue
from apps.pricing.rating import digest_of
from apps.pricing.services import pricebook_publish
from apps.sales.services import quote_accept, quote_create
from tests.cast import Cast
from tests.pricing.rating.books import document
from tests.sales.market import NOW, open_market
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db


def _dearer(book: dict[str, Any]) -> None:
    book["version"] = 2
    book["prices"]["lpu"]["float32"] = "0.9"


class Papers:
    """A sale under each of two books on one invoice, and files of both books and of another that calls itself the first."""

    def __init__(self, folder: Path, cast: Cast) -> None:
        market, later = open_market(), NOW + timedelta(days=30)
        program = market.program(cast.organisation, cast.engineer)
        pricebook_publish(document=document(_dearer), effective_from=later, now=NOW)
        for now in (NOW, later):
            quote = quote_create(
                organisation=cast.organisation,
                lines=[(program, 10**6)],
                klass="standard",
                pool=market.lpu,
                actor=None,
                now=now,
            )
            contract = quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=now)
            run(contract, 10**6, now=now)
        issued = invoice_issue(organisation=cast.organisation, actor=None, now=later + timedelta(minutes=1))
        self.document: dict[str, Any] = json.loads(invoice_json(issued))
        self.invoice, self.first, self.second, self.other = (
            folder / f"{name}.json" for name in ("invoice", "first", "second", "other")
        )
        self.first.write_text(json.dumps(document()))
        self.second.write_text(json.dumps(document(_dearer)))
        self.other.write_text(json.dumps(document(lambda book: book["prices"]["lpu"].update(float32="0.7"))))

    def run(self, *books: Path) -> int:
        """`takt verify` on the invoice."""
        self.invoice.write_text(json.dumps(self.document))
        return main(["verify", str(self.invoice), *map(str, books)])


@pytest.fixture
def papers(tmp_path: Path, cast: Cast) -> Papers:
    return Papers(tmp_path, cast)


def test_a_book_that_is_missing_is_asked_for_and_is_no_difference(
    papers: Papers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {line["rating"]["book_version"] for line in papers.document["lines"]} == {1, 2}
    assert papers.run(papers.first, papers.second) == PARTLY  # without the model
    for book, given, missing in ((papers.first, 1, 2), (papers.second, 2, 1)):
        capsys.readouterr()
        assert papers.run(book) == UNUSABLE
        said = capsys.readouterr()
        assert f"but you gave price book {given}. Give price book {missing} too" in said.err
        assert "DIFFERENT" not in said.out


def test_a_book_of_the_same_version_with_other_prices_is_a_difference(
    papers: Papers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert papers.run(papers.other, papers.second) == WRONG
    assert "price book: the document says version 1" in capsys.readouterr().out


def test_an_altered_invoice_is_wrong_whatever_books_are_given(
    papers: Papers, capsys: pytest.CaptureFixture[str]
) -> None:
    papers.document["number"] = "T-0"
    assert papers.run(papers.second) == WRONG
    assert "digest of the document" in capsys.readouterr().out


def test_every_missing_book_is_named_at_once(papers: Papers, capsys: pytest.CaptureFixture[str]) -> None:
    for line, version in zip(papers.document["lines"], (7, 5), strict=True):
        line["rating"] |= {"book_version": version, "book_digest": f"{version}" * 64}
    papers.document["digest"] = digest_of({key: value for key, value in papers.document.items() if key != "digest"})
    assert papers.run(papers.first) == UNUSABLE
    assert "Give price book 5 and price book 7 too" in capsys.readouterr().err


def test_the_help_says_what_a_missing_book_gives(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["verify", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "every price book that a line was priced with" in said
    assert "2 not checked (for example, a price book is missing)" in said
