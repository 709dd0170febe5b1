from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

import compiler
from apps.accounts.models import User
from apps.cli.main import PARTLY, RIGHT, UNUSABLE, WRONG, main
from apps.cli.recompile import facts_of, model_of, recompile
from apps.compilation.models import Program
from apps.invoicing.exports import invoice_json
from apps.invoicing.services import invoice_issue
from apps.pricing.rating import decimal_text, digest_of, exact_sum, payable_of, shares_of
from apps.sales.exports import quote_json
from apps.sales.models import Contract
from apps.sales.services import quote_accept, quote_create
from compiler.sources import version_name
from tests.cast import Cast
from tests.cli.networks import network_write
from tests.pricing.rating.books import SHIPPED
from tests.sales.market import Market, open_market
from tests.sales.test_contracts import run
from tests.tiers import WHOLE, some

ROOT = Path(__file__).parents[2]


def _stored(market: Market, cast: Cast, path: Path) -> Program:
    """The program as the compile room stores it, with the figures that the compiler gives."""
    row = market.program(cast.organisation, cast.engineer, name=path.stem)
    made, file = compiler.compile(compiler.load(str(path))), model_of(path, path.read_bytes())
    facts = facts_of(made)
    version = row.model_version
    version.sha256 = file.sha256
    version.save()
    for name, value in {
        "digest": facts.digest,
        "target_digest": facts.target_digest,
        "compiler_version": facts.compiler_version,
        "operations": facts.operations,
        "interval_cycles": facts.interval,
        "latency_cycles": facts.latency,
        "dims": {},
    }.items():
        setattr(row, name, value)
    row.save()
    market.lpu.processor.digest = facts.target_digest
    market.lpu.processor.save()
    return row


class Papers:
    """An invoice and a quote over two real models, as a customer downloads them."""

    def __init__(self, folder: Path, cast: Cast) -> None:
        self.folder, market, now = folder, open_market(), timezone.now()
        self.models = [network_write(folder / f"net{width}.onnx", width=width) for width in (16, 24)]
        contracts: list[Contract] = []
        for path, klass in zip(self.models, ("standard", "batch"), strict=True):
            quote = quote_create(
                organisation=cast.organisation,
                lines=[(_stored(market, cast, path), 10**9)],
                klass=klass,
                pool=market.lpu,
                actor=None,
                now=now,
            )
            contracts.append(quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=now))
        for contract, leases in zip(contracts, ([800_000_000, 200_000_000], [123_456_789]), strict=True):
            for executions in leases:
                run(contract, executions, now=now)
        self.quote = json.loads(quote_json(contracts[0].quote))
        invoice = invoice_issue(organisation=cast.organisation, actor=None, now=now + timedelta(seconds=1))
        self.invoice = json.loads(invoice_json(invoice))

    def run(self, document: dict[str, Any], *files: Path) -> int:
        """`takt verify` on this document."""
        path = self.folder / "document.json"
        path.write_text(json.dumps(document))
        return main(["verify", str(path), *map(str, files or [*self.models, SHIPPED])])


pytestmark = pytest.mark.usefixtures("shared_cast")


@pytest.fixture(scope="module")
def shared_papers(shared_cast: Cast, tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"), shared_cast)


@pytest.fixture
def papers(shared_papers: Papers, db: None) -> Papers:
    return copy.deepcopy(shared_papers)


def test_an_invoice_is_reproduced_to_the_last_digit(papers: Papers, capsys: pytest.CaptureFixture[str]) -> None:
    assert papers.run(papers.invoice) == RIGHT
    said = capsys.readouterr().out
    assert "verified: T-" in said
    assert "2 usage rows sum to 1,000,000,000 executions" in said
    assert said.count("steps give") == 2


def test_a_quote_is_reproduced_too(papers: Papers) -> None:
    assert papers.run(papers.quote, papers.models[0], SHIPPED) == RIGHT


def test_a_model_that_is_not_given_is_said_to_be_unchecked(papers: Papers, capsys: pytest.CaptureFixture[str]) -> None:
    assert papers.run(papers.invoice, papers.models[1], SHIPPED) == PARTLY
    assert "its counts were not recomputed" in capsys.readouterr().out


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a document that holds money, a count or a rule."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index))
    else:
        yield path


LEFT_TO_THE_DIGEST = {
    "asked_before",
    "tax_asked_before",
    "addressee",
    "organisation",
    "period",
    "quoted_against_actual",
    "previous",
    "id",
    "number",
    "issued_at",
    "due_at",
}
NAMES = {
    "model",
    "project",
    "project_id",
    "program_id",
    "reason",
    "exact",
    "clock_hz",
    "dims",
    "constants",
    "compiler_version",
}


def _change(document: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    value = place[path[-1]]
    place[path[-1]] = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}1"
    return changed


def test_whatever_is_changed_is_found_by_the_digest(papers: Papers) -> None:
    for path in list(_places(papers.invoice))[:: 5 if WHOLE else 20]:
        changed = _change(papers.invoice, path)
        assert papers.run(changed) in {WRONG, UNUSABLE}, path


def test_a_changed_figure_is_found_even_when_the_digest_was_made_anew(papers: Papers) -> None:
    body = {key: value for key, value in papers.invoice.items() if key != "digest"}
    figures = [
        path
        for path in _places(body)
        if path[0] not in LEFT_TO_THE_DIGEST
        and path[-1] not in NAMES
        and (
            path[-2:-1] != ("program",)
            or path[-1] in {"operations", "cycles", "digest", "target_digest", "latency_cycles"}
        )
        and not (
            path[0] == "lines" and path[2] in {"contract", "terms_digest", "quoted_executions", "quoted_amount", "kind"}
        )
        and not ("usage" in path and path[-1] in {"id", "lease", "from", "to", "digest"})
        and not ("pool" in path and path[-1] in {"slug", "name"})
    ]
    assert len(figures) > 150
    assert any(path[-2:] == ("pool", "processor_class") for path in figures)
    for path in random.Random(6).sample(figures, some(60)):
        changed = _change(body, path)
        changed["digest"] = digest_of(changed)
        allowed = {WRONG, UNUSABLE, PARTLY} if path[-1] == "model_sha256" else {WRONG, UNUSABLE}
        assert papers.run(changed) in allowed, path


def test_the_first_difference_names_its_place(papers: Papers, capsys: pytest.CaptureFixture[str]) -> None:
    changed = copy.deepcopy(papers.invoice)
    changed["lines"][1]["rating"]["steps"][5]["factor"] = "0.6"
    del changed["digest"]
    assert papers.run(changed) == WRONG
    assert "line 2, step 'discount', factor: the document says 0.6, computed here is" in capsys.readouterr().out


def test_a_calibrated_program_is_reproduced_from_its_ranges(tmp_path: Path) -> None:
    path, other = network_write(tmp_path / "net.onnx", width=16), network_write(tmp_path / "other.onnx", width=24)
    feeds = [{"x": np.full((1, 8), value, np.float32)} for value in (-3.0, 0.5, 9.0)]
    ranges = compiler.calibrate(compiler.load(str(path)), feeds, "int8")
    foreign = compiler.calibrate(compiler.load(str(other)), feeds, "int8")
    made = compiler.compile(compiler.load(str(path)), "lpu", "int8", ranges)
    program = {
        "dims": {},
        "constants": {},
        "target": "lpu",
        "precision": "int8",
        "calibration": "c" * 64,
        "digest": made.digest,
    }
    assert recompile(model_of(path, path.read_bytes()), program, [foreign, ranges]).digest == made.digest
    assert recompile(model_of(path, path.read_bytes()), program).digest != made.digest


def test_an_invoice_of_a_calibrated_program_asks_for_its_ranges(
    papers: Papers, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = copy.deepcopy(papers.invoice)
    program = changed["lines"][0]["program"]
    program["calibration"], program["digest"] = "c" * 64, "d" * 64
    changed["digest"] = digest_of({key: value for key, value in changed.items() if key != "digest"})
    ranges = papers.folder / "ranges.json"
    ranges.write_text(compiler.calibrate(compiler.load(str(papers.models[1])), None, "int8").to_json())
    assert papers.run(changed, *papers.models, SHIPPED, ranges) == PARTLY
    assert "give the ranges.json of its report" in capsys.readouterr().out


def test_a_program_of_another_compiler_is_not_called_wrong(papers: Papers, capsys: pytest.CaptureFixture[str]) -> None:
    """A later compiler may make a better program; only the one that made it can say whether the line is right."""
    changed = copy.deepcopy(papers.invoice)
    program = changed["lines"][0]["program"]
    program["compiler_version"] = "0.0.9+0123456789ab"
    changed["digest"] = digest_of({key: value for key, value in changed.items() if key != "digest"})
    assert papers.run(changed) == RIGHT, "another compiler, the same bytes"
    program["digest"] = "d" * 64
    changed["digest"] = digest_of({key: value for key, value in changed.items() if key != "digest"})
    capsys.readouterr()
    assert papers.run(changed) == UNUSABLE
    said = capsys.readouterr().err
    assert "was compiled with compiler version 0.0.9+0123456789ab. This command contains compiler version" in said
    assert version_name(compiler.compile(compiler.load(str(papers.models[0]))).binary.compiler_version) in said


def test_another_price_book_is_told_apart(papers: Papers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    other.write_text(SHIPPED.read_text().replace('"0.008"', '"0.009"'))
    assert papers.run(papers.invoice, *papers.models, other) == WRONG
    assert "price book" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ("[]", "not a document of Takt"),
        ("{}", "format is None"),
        ('{"format": "takt-invoice/1"}', "lacks a field"),
        ('{"format": "takt-invoice/1", "lines": [{}]}', "lacks a field"),
        ("[" * 50_000, "is not JSON"),
        ('{"format": "takt-invoice/1", "lines": 3}', "a type that the format takt-invoice/1 does not allow"),
        ('{"format": "takt-invoice/1", "lines": [], "net": 0.5}', "0.5 is a float"),
        ('{"a": ' + "9" * 9999, "is not JSON"),
    ],
)
def test_what_is_no_invoice_is_refused_in_a_sentence(
    tmp_path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    assert main(["verify", str(path), str(SHIPPED)]) == UNUSABLE
    assert said in capsys.readouterr().err


def test_an_altered_document_is_told_where(papers: Papers, capsys: pytest.CaptureFixture[str]) -> None:
    """Its digest is wrong whatever was altered; the place is named where anything is computed from it."""
    lines = {row["executions"]: (line, n) for line in papers.invoice["lines"] for n, row in enumerate(line["usage"], 1)}
    line, row = lines[200_000_000]  # contracts have drawn names, and what they cost goes with the compiler
    number, amount, payable = line["number"], line["amount"], papers.invoice["payable"]
    for change, place in (
        (lambda text: text.replace(f'"result": "{amount}"', f'"result": "{amount}1"', 1), f"line {number}, step"),
        (
            lambda text: text.replace(f'"actual": "{amount}"', f'"actual": "{amount}1"'),
            "quoted against actual, contract ",
        ),
        (lambda text: text.replace("200000000", "200000001", 1), f"line {number}, usage row {row}, amount"),
        (lambda text: text.replace("123456789", "123456788"), f"line {3 - number}, "),
        (lambda text: text.replace(f'"payable": "{payable}"', '"payable": "0.04"'), "payable: the document says 0.04"),
        (lambda text: text.replace('"number": "T-', '"number": "U-'), "digest of the document, which was changed"),
        (lambda text: text.replace('"lines": [', '"linen": ['), "digest of the document, which was changed"),
    ):
        altered = change(json.dumps(papers.invoice))
        assert altered != json.dumps(papers.invoice), place
        assert papers.run(json.loads(altered)) == WRONG
        assert f"DIFFERENT. {place}" in capsys.readouterr().out


def test_what_is_no_price_book_and_what_belongs_to_no_line_is_said(
    papers: Papers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, paper = tmp_path / "paper.pdf", tmp_path / "invoice.json"
    other.write_bytes(b"%PDF-1.7")
    assert papers.run(papers.invoice, *papers.models, SHIPPED, other) == RIGHT
    assert "paper.pdf belongs to no line" in capsys.readouterr().out
    paper.write_text(json.dumps(papers.invoice))
    assert main(["report", str(papers.models[0]), "--book", str(paper)]) == UNUSABLE
    assert "is not a price book: its format is 'takt-invoice/1'" in capsys.readouterr().err


def test_missing_files_and_a_missing_book_are_named(papers: Papers, capsys: pytest.CaptureFixture[str]) -> None:
    assert papers.run(papers.invoice, papers.models[0]) == UNUSABLE
    assert "No price book is given" in capsys.readouterr().err
    assert papers.run(papers.invoice, Path("/nowhere/net.onnx"), SHIPPED) == UNUSABLE
    assert "/nowhere/net.onnx: there is no such file" in capsys.readouterr().err


def test_adjustments_belong_to_the_total_and_have_shares(papers: Papers, capsys: pytest.CaptureFixture[str]) -> None:
    """A credit of 0.01 beside the lines of an invoice of version 1 of the rules: net, rounding and every share follow, or the
    first difference is named."""
    body = {key: value for key, value in papers.invoice.items() if key not in {"digest", "rules", "sections"}}
    amounts = [Decimal(line["amount"]) for line in body["lines"]] + [Decimal("-0.01")]
    net = exact_sum(amounts)
    rounded = payable_of(net, exponent=2)
    *shares, carried = shares_of(rounded.payable, [*amounts, Decimal(0)], exponent=2)
    for line, share in zip(body["lines"], shares, strict=False):
        line["share"] = decimal_text(share)
    body |= {
        "adjustments": [
            {
                "number": 3,
                "kind": "credit",
                "amount": "-0.01",
                "share": decimal_text(shares[-1]),
                "basis": {"grant": "x", "granted": "2", "left": "0.01"},
            }
        ],
        "net": decimal_text(net),
        "total": decimal_text(net),
        "payable": decimal_text(rounded.payable),
        "correction": decimal_text(rounded.correction),
        "due": decimal_text(rounded.payable),
        "carried_out": "0",
        "carried_in_share": decimal_text(carried),
    }
    assert papers.run(body) == RIGHT
    body["adjustments"][0]["share"] = "0"
    assert papers.run(body) == WRONG
    assert "adjustment 3, share" in capsys.readouterr().out
    body["adjustments"][0]["basis"]["left"] = "0.009"
    assert papers.run(body) == WRONG
    assert "adjustment 3, amount" in capsys.readouterr().out


def test_the_command_runs_where_the_server_is_not_installed(papers: Papers) -> None:
    """A customer's machine has onnx and numpy. Whatever else is imported there is an error."""
    path = papers.folder / "invoice.json"
    path.write_text(json.dumps(papers.invoice))
    program = (
        "import sys\n"
        "class Wall:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.split('.')[0] in {'django', 'celery', 'redis', 'psycopg2', 'ninja', 'scipy', "
        "'onnxruntime', 'reportlab', 'stripe', 'structlog', 'pydantic'}:\n"
        "            raise ImportError(name + ' is not here')\n"
        "sys.meta_path.insert(0, Wall())\n"
        "from apps.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    files = [str(path), *map(str, papers.models), str(SHIPPED)]
    done = subprocess.run(
        [sys.executable, "-c", program, "verify", *files],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == RIGHT, done.stderr
    assert "verified: T-" in done.stdout


def test_the_downloads_of_the_site_verify(
    papers: Papers, cast: Cast, as_user: Callable[[User], Client], tmp_path: Path
) -> None:
    client = as_user(cast.viewer)
    book, invoice = tmp_path / "b.json", tmp_path / "i.json"
    book.write_bytes(client.get("/prices/1/price-book.json").content)
    invoice.write_bytes(client.get(f"/invoices/{papers.invoice['id']}/invoice.json").content)
    assert main(["verify", str(invoice), *map(str, papers.models), str(book)]) == RIGHT
    book.write_bytes(client.get("/api/v1/price-books/current").content)
    assert main(["verify", str(invoice), *map(str, papers.models), str(book)]) == RIGHT


def test_a_report_prices_every_class_on_offer(papers: Papers, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(papers.models[0]), "--book", str(SHIPPED), "--json"]) == RIGHT
    document = json.loads(capsys.readouterr().out)
    assert sorted(row["class"] for row in document["prices"]) == ["batch", "off_peak", "priority", "standard"]
    assert main(["report", str(papers.models[0])]) == RIGHT
    assert "not priced" in capsys.readouterr().out
    assert main(["report", str(SHIPPED)]) == UNUSABLE
    assert main(["report", str(papers.models[0]), "--dim", "batch"]) == UNUSABLE
