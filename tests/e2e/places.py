"""Every page of the product, with what the walk made; the pictures and the checks both go through this list."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from apps.planner.hosting.formats import SAMPLE as FILL_IN
from bin.models import fetch
from tests.e2e import office, walk
from tests.e2e import visit as visiting
from tests.e2e.addresses import ADMIN, MEMBER, PUBLIC
from tests.e2e.product import Product
from tests.models import CASES
from tests.planner.places import SAMPLE, file_of, measured_here, written_by_hand


@dataclass
class Places:
    """Addresses by name, for whom they are, and the signed-in profiles."""

    public: dict[str, str] = field(default_factory=dict)
    member: dict[str, str] = field(default_factory=dict)
    admin: dict[str, str] = field(default_factory=dict)
    member_state: Any = None
    admin_state: Any = None
    console: list[str] = field(default_factory=list)

    def groups(self) -> list[tuple[Any, dict[str, str]]]:
        """(profile, pages) for each kind of visitor."""
        return [(None, self.public), (self.member_state, self.member), (self.admin_state, self.admin)]


# A direction classifier of an OCR engine: 0.6 MB, its lengths open, so that the page has to ask for them.
REAL_MODEL, LENGTHS = CASES["cls"]


def make_places(opened: Browser, product: Product) -> Places:
    """Walk the way of a customer with a real model and two samples, and list every page that there is then."""
    found = Places()
    profile = visiting.context(opened)
    visit = visiting.watched(profile, product.url)
    _walk(visit, found, fetch(REAL_MODEL))
    found.member_state = profile.storage_state()
    found.console += visit.noted()
    profile.close()
    administrator = visiting.context(opened)
    visit = visiting.watched(administrator, product.url)
    walk.sign_in(visit, product.demo["admin_email"], product.demo["admin_password"])
    found.admin_state = administrator.storage_state()
    customer, invoice = office.credit_customer(visit, "Wanda's workshop", amount="25.00")
    office.preview_prices(visit)
    draft = office.draft_prices(visit)
    compared, compared_rows = office.reconcile(visit, "Wanda's workshop")
    planned = office.plan_capacity(visit)
    rerated = office.costs_and_another_book(visit, "Wanda's workshop")
    compared_fleets = office.forecast_and_what_if(visit)
    proposal, failure = (
        _first_link(visit, *one) for one in ((planned, "Show the change"), ("/fleet", "Record failure"))
    )
    found.console += visit.noted()
    administrator.close()
    found.public |= PUBLIC
    found.admin = ADMIN | {
        "capacity-plan": planned,
        **{f"price-draft-{name}": f"{draft}/{name}" for name in ("prices", "classes", "hours", "terms", "review")},
        "customer": customer,
        "customer-invoice": invoice,
        "reconciliation": compared,
        "reconciliation-rows": compared_rows,
        "rerating": rerated,
        "what-if-difference": compared_fleets,
        "what-if-fleet": f"{compared_fleets}/fleet",
        "capacity-plan-fleet": proposal,
        "failure": failure,
    }
    return found


def _first_link(visit: visiting.Watched, path: str, name: str) -> str:
    """Where the page's first link of that name leads."""
    visit.open(path)
    return visit.page.get_by_role("link", name=name).first.get_attribute("href") or ""


def _walk(visit: visiting.Watched, found: Places, model: Path) -> None:
    """One customer: a real model bought and run, two samples planned; empty pages are looked at on the way."""
    walk.sign_up(visit, name="Wanda", email="wanda@example.com")
    pages = found.member
    real = walk.upload(visit, model)
    pages["model"] = real
    large, small = walk.add_sample(visit, "Digits, large"), walk.add_sample(visit, "Digits, small")
    pages["compile"] = walk.compile_for(visit, real, ["lpu", "lpu2"], lengths=LENGTHS)
    walk.compile_for(visit, large, ["lpu", "lpu2"])
    walk.compile_for(visit, small, ["lpu"])
    walk.compile_for(visit, large, ["lpu", "systolic"], precisions=("int8",))
    pages["report"] = walk.program_of(visit, real, "lpu")
    pages["report-small"] = walk.program_of(visit, large, "lpu")
    pages["report-int8"] = walk.program_of(visit, large, "lpu", "int8")
    beside = [pages["report-small"], pages["report-int8"], walk.program_of(visit, large, "systolic", "int8")]
    pages["compare"] = "/programs/compare?" + "&".join(f"p={page.rsplit('/', 1)[-1]}" for page in beside)
    pages["model-compiled"] = large
    visit.open(large)
    compiles = visit.page.locator("a[href^='/compiles/']:not([href*='requests'])")
    pages["compile-job"] = compiles.first.get_attribute("href") or ""
    pages["processor-own"] = walk.add_processor(visit, "prototype")
    pages["processors-own"] = "/processors"
    pages["plan"] = walk.plan(visit, large, items=1_000_000, accuracy="90")
    pages["plan-impossible"] = walk.plan(visit, large, items=1_000_000, accuracy="99.9")
    pages["plan-without-room"] = walk.plan(visit, large, items=10**12, accuracy="90")
    _other_places(visit, pages)
    pages["task"] = walk.sample_task(visit)
    _buy_and_run(visit, found)
    walk.evaluated(visit, pages["task"])
    pages["task-plan"] = f"{pages['task']}/plan"
    pages["plan-of-task"] = walk.plan_task(visit, pages["task"], items=1_000_000, accuracy="90")
    pages |= MEMBER | {
        "plan-new": f"/plans/new?version={large.rsplit('/', 1)[-1]}",
        "job-new": f"/jobs/new?contract={pages['contract'].rsplit('/', 1)[-1]}",
    }


def _other_places(visit: visiting.Watched, pages: dict[str, str]) -> None:
    """The plan beside a machine of one's own and a rented one: this machine's measurement, and one that is written by hand."""
    here = measured_here(SAMPLE.with_name("digits-large.onnx"))
    yesterday = datetime.now(UTC) - timedelta(days=1)
    sha256 = json.loads(here)["model"]["sha256"]
    there = written_by_hand(sha256, measured_at=f"{yesterday:%Y-%m-%dT%H:%M:%SZ}")
    walk.import_measurement(visit, file_of(there))
    pages["place-measurement"] = walk.import_measurement(visit, here)
    day, head = f"{yesterday:%Y-%m-%d}", FILL_IN.split("\n", 1)[0]
    euros = FILL_IN.replace(",L4,", ",NVIDIA L4,") + "workshop,0.11,EUR,hour,here,,,\n"
    dollars = f"{head}\ndollar-l4,0.8,USD,hour,there,NVIDIA L4,1,\n"
    pages["price-list"] = walk.import_prices(visit, euros.encode(), source="A cloud", day=day)
    walk.import_prices(visit, dollars.encode(), source="Another cloud", day=day)
    walk.own_machine(visit, "workshop")
    pages["places"] = "/places"
    pages["plan-places"] = f"{pages['plan']}/places"


def _buy_and_run(visit: visiting.Watched, found: Places) -> None:
    """Quotes of the report's program and of the plan; one is accepted, run, invoiced and run again."""
    pages = found.member
    program = pages["report"].rsplit("/", 1)[-1]
    pages["quote-new"] = f"/quotes/new?program={program}"
    pages["quote-of-plan"] = walk.quote(visit, f"plan={pages['plan'].rsplit('/', 1)[-1]}", volume=20_000)
    pages["quote"] = walk.quote(visit, f"program={program}", volume=2_000)
    pages["quote-compare"] = "/quotes/compare?" + "&".join(
        f"quote={pages[name].rsplit('/', 1)[-1]}" for name in ("quote", "quote-of-plan")
    )
    found.public["shared-quote"] = _share_link(visit)
    pages["quote-accept"] = f"{pages['quote-of-plan']}/accept"
    pages["contract"] = walk.accept(visit, pages["quote"])
    pages["quote-wait"] = f"{pages['quote-of-plan']}/wait"
    pages["job"] = walk.run_job(visit, pages["contract"], items=2)
    found.public["invitation"] = walk.invite(visit, "colleague@example.com")
    pages["invoice-draft"] = "/invoices/draft"
    pages["invoice"] = walk.issue_invoice(visit)
    walk.set_budget(visit, amount="0.01")
    walk.set_cap(visit, amount="250.00")
    pages["webhook"] = walk.add_endpoint(visit, "https://hooks.example.com/takt")
    walk.be_sure(visit)
    pages["job-second"] = walk.run_job(visit, pages["contract"], items=1)  # so that there is something to draft


def _share_link(visit: visiting.Watched) -> str:
    """The link by which anybody may read the quote on the page."""
    visit.page.get_by_role("button", name="Create a share link").click()
    link = visit.page.locator("code", has_text="/shared/quotes/")
    expect(link).to_be_visible()
    text = link.inner_text()
    return text[text.index("/shared/") :]
