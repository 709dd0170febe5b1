"""The way of a customer, step by step, as a person goes it in the browser. Each step returns the address it ended on."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import FilePayload, Locator, Page, expect

from compiler import targets
from tests.e2e.visit import Watched

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
PATIENT = 90_000  # milliseconds: a real compiler and real workers on a busy machine
PASSWORD = "correct horse battery"


def path_of(page: Page) -> str:
    """The address without the host."""
    return re.sub(r"^https?://[^/]+", "", page.url)


def sign_up(visit: Watched, *, name: str, email: str) -> None:
    """A new person with an organisation of her own, who follows the link that she is mailed."""
    page = visit.page
    visit.open("/sign-up")
    page.get_by_label("Your name").fill(name)
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Organisation").fill(f"{name}'s workshop")
    page.locator("main form button[type=submit], main form button").first.click()
    expect(page.get_by_role("heading", name="Check your mail")).to_be_visible()
    follow_mail(page, email, "Confirm your e-mail address")
    expect(page.locator("body.with-rail")).to_be_visible()


def follow_mail(page: Page, email: str, subject: str) -> None:
    """Follow the link of the newest mail to an address."""
    mail_link(page, email, subject).click()


def mail_link(page: Page, email: str, subject: str) -> Locator:
    """The link in the newest mail of a subject to an address, on the page that shows the mails."""
    page.goto(re.sub(r"^(https?://[^/]+).*", r"\1/mail", page.url))
    message = page.get_by_role("article", name=subject).filter(has_text=f"To {email}")
    for _ in range(60):
        if message.count():
            break
        page.wait_for_timeout(250)
        page.reload()
    return message.first.get_by_role("link").first


def sign_in(visit: Watched, email: str, password: str) -> None:
    page = visit.page
    visit.open("/sign-in")
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password").fill(password)
    page.locator("main form button").first.click()
    expect(page.locator("body.with-rail")).to_be_visible()


def upload(visit: Watched, model: Path) -> str:
    """A file through the real file input, in pieces; ends on the version's page."""
    page = visit.page
    visit.open("/models/upload")
    page.locator("main input[type=file]").first.set_input_files(str(model))
    page.get_by_label("Compile right after the upload").uncheck()
    page.get_by_role("button", name="Upload", exact=True).click()
    page.wait_for_url(re.compile(r"/versions/[0-9a-f-]{36}"), timeout=PATIENT)
    return path_of(page)


def add_sample(visit: Watched, title: str) -> str:
    """A sample by one click."""
    page = visit.page
    visit.open("/models/upload")
    page.locator("form", has_text=title).get_by_role("button", name="Use this sample").click()
    page.wait_for_url(re.compile(r"/versions/[0-9a-f-]{36}"))
    return path_of(page)


def compile_for(
    visit: Watched,
    version: str,
    targets: list[str],
    *,
    lengths: dict[str, int] | None = None,
    precisions: tuple[str, ...] = ("float32",),
) -> str:
    """Compile for all of `targets` in all of `precisions`, open lengths stated; ends on their page, all done."""
    page = visit.page
    visit.open(version)
    for name, size in (lengths or {}).items():
        page.locator(f"[name='dim-{name}']").fill(str(size))
    for box in page.locator("input[name=targets]").all():
        box.set_checked(box.get_attribute("value") in targets)
    for box in page.locator("input[name=precision]").all():
        box.set_checked(box.get_attribute("value") in precisions)
    page.get_by_role("button", name="Compile", exact=True).click()
    page.wait_for_url(re.compile(r"/compiles/requests/|/programs/"))
    progress = path_of(page)
    ready, wanted = page.get_by_role("link", name="Open the report"), len(targets) * len(precisions)
    for _ in range(PATIENT // 500):
        if "/programs/" in page.url or ready.count() == wanted:
            break
        page.wait_for_timeout(500)
    assert "/programs/" in page.url or ready.count() == wanted
    return progress


def program_of(visit: Watched, version: str, target: str, precision: str = "float32") -> str:
    """The report page of the version's program on `target` in `precision`."""
    page = visit.page
    visit.open(version)
    row = page.locator("tbody tr").filter(has_text=precision)
    row.locator("a[href*='/programs/']", has_text=re.compile(f"^{target}$")).first.click()
    page.wait_for_url(re.compile(r"/programs/"))
    return path_of(page)


def plan(visit: Watched, version: str, *, items: int, accuracy: str) -> str:
    """State what is needed, get the cheapest way."""
    page = visit.page
    visit.open(f"/plans/new?version={version.rsplit('/', 1)[-1]}")
    page.locator("input[name=items]").fill(str(items))
    page.locator("input[name=accuracy]").fill(accuracy)
    page.get_by_role("button", name="Make the plan").click()
    page.wait_for_url(re.compile(r"/plans/[0-9a-f-]{36}"))
    return path_of(page)


def sample_task(visit: Watched) -> str:
    """The sample task, and the evaluation of every program that is compiled: it runs while the walk goes on."""
    page = visit.page
    visit.open("/tasks")
    page.get_by_role("button", name="Try the sample").click()
    page.wait_for_url(re.compile(r"/tasks/[0-9a-f-]{36}"))
    page.get_by_role("button", name="Evaluate for").click()
    expect(page.get_by_text("Evaluations are running")).to_be_visible()
    return path_of(page)


def evaluated(visit: Watched, task: str) -> None:
    """Wait on the task's page until nothing is under way; it follows by itself."""
    visit.open(task)
    expect(visit.page.get_by_text("Evaluations are running")).to_have_count(0, timeout=PATIENT)
    expect(visit.page.locator("#task").get_by_text("evaluated", exact=True).first).to_be_visible()


def plan_task(visit: Watched, task: str, *, items: int, accuracy: str) -> str:
    """State what a task needs, get the cheapest way."""
    visit.open(f"{task}/plan")
    visit.page.locator("input[name=items]").fill(str(items))
    visit.page.locator("input[name=accuracy]").fill(accuracy)
    visit.page.get_by_role("button", name="Make the plan").click()
    visit.page.wait_for_url(re.compile(r"/plans/[0-9a-f-]{36}"))
    return path_of(visit.page)


def quote(visit: Watched, query: str, *, volume: int) -> str:
    """Type the volume and make the quote at once. `query` is program=<id> or plan=<id>."""
    page = visit.page
    visit.open(f"/quotes/new?{query}")
    page.locator("#id_volume").fill(str(volume))
    page.locator("#offer .offer-make").first.get_by_role("button", name="Make this quote").click()
    page.wait_for_url(re.compile(r"/quotes/[0-9a-f-]{36}"))
    return path_of(page)


def accept(visit: Watched, quoted: str) -> str:
    """Accept the quote, with the double click of a hasty person; ends on the contract."""
    page = visit.page
    visit.open(f"{quoted}/accept")
    page.get_by_role("button", name=re.compile("^Accept for")).dblclick()
    page.wait_for_url(re.compile(r"/contracts/[0-9a-f-]{36}"))
    return path_of(page)


def run_job(visit: Watched, contract: str, *, items: int) -> str:
    """Seeded items of the right shape under the contract; ends on the job, done."""
    page = visit.page
    visit.open(f"/jobs/new?contract={contract.rsplit('/', 1)[-1]}")
    page.locator("input[name=sample_items]").fill(str(items))
    page.get_by_role("button", name="Submit", exact=True).dblclick()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    expect(page.locator("#job .metric-value").first).to_have_text(re.compile("Done|Failed"), timeout=PATIENT)
    expect(page.locator("#job .metric-value").first).to_have_text("Done")
    return path_of(page)


def invite(visit: Watched, email: str) -> str:
    """An invitation; the link is in the mail alone."""
    page = visit.page
    visit.open("/settings/organisation")
    page.get_by_label("E-mail address").fill(email)
    page.get_by_role("button", name="Send invitation").click()
    expect(page.get_by_text(f"The invitation is on its way to {email}.")).to_be_visible()
    link = mail_link(page, email, "Join")
    return re.sub(r"^https?://[^/]+", "", str(link.get_attribute("href")))


def be_sure(visit: Watched) -> None:
    """Enter the password once more, as pages that change an account's security ask."""
    visit.open("/settings/passkeys/new")
    visit.page.get_by_label("Password").fill(PASSWORD)
    visit.page.get_by_role("button", name="Confirm").click()
    expect(visit.page.get_by_role("heading", name="Add a passkey")).to_be_visible()


def add_processor(visit: Watched, name: str) -> str:
    """A processor of one's own, made of a shipped one; ends on its page."""
    page = visit.page
    visit.open("/processors")
    text = targets.text("edge").replace('name = "edge"', f'name = "{name}"', 1)
    file = FilePayload(name=f"{name}.toml", mimeType="application/toml", buffer=text.encode())
    page.get_by_label("Processor file").set_input_files(file)
    page.get_by_role("button", name="Check and save").click()
    page.wait_for_url(re.compile(r"/processors/[0-9a-f-]{36}"))
    return path_of(page)


def import_measurement(visit: Watched, data: bytes) -> str:
    """A file of `takt measure`; ends on its page."""
    page = visit.page
    visit.open("/places")
    page.get_by_label("Measurement file").set_input_files(
        FilePayload(name="m.json", mimeType="application/json", buffer=data)
    )
    page.get_by_role("button", name="Import measurement").click()
    page.locator("a[href*='/places/measurements/']").first.click()
    page.wait_for_url(re.compile(r"/places/measurements/[0-9a-f-]{36}"))
    return path_of(page)


def import_prices(visit: Watched, data: bytes, *, source: str, day: str) -> str:
    """A price list of one's own; ends on its page."""
    page = visit.page
    visit.open("/places")
    page.get_by_label("Price list (.csv)").set_input_files(
        FilePayload(name="prices.csv", mimeType="text/csv", buffer=data)
    )
    page.get_by_label("Source").fill(source)
    page.get_by_label("Date", exact=True).fill(day)
    page.get_by_role("button", name="Import prices").click()
    page.get_by_role("link", name=source).click()
    page.wait_for_url(re.compile(r"/places/price-lists/[0-9a-f-]{36}"))
    return path_of(page)


def own_machine(visit: Watched, name: str) -> None:
    """A machine that somebody bought."""
    page = visit.page
    visit.open("/places")
    form = page.locator("form[action$='/places/machines']")
    for label, value in (
        ("Name", name),
        ("Purchase price", "2400"),
        ("Power (W)", "120"),
        ("Energy", "0.28"),
    ):
        form.get_by_label(label).fill(value)
    page.get_by_role("button", name="Save machine").click()
    expect(page.get_by_role("rowheader", name=name)).to_be_visible()


def issue_invoice(visit: Watched) -> str:
    """Invoice what was used until now."""
    page = visit.page
    visit.open("/invoices")
    page.get_by_role("button", name="Issue now").click()
    page.wait_for_url(re.compile(r"/invoices/[0-9a-f-]{36}"))
    return path_of(page)


def set_budget(visit: Watched, *, amount: str) -> None:
    """A budget of the whole organisation."""
    page = visit.page
    visit.open("/portal/budgets")
    page.get_by_label("Amount").fill(amount)
    page.get_by_role("button", name="Create budget").click()
    expect(page.get_by_text("Budget created.")).to_be_visible()


def add_endpoint(visit: Watched, url: str) -> str:
    """An address that is told of invoices and budgets; ends on its page."""
    page = visit.page
    visit.open("/portal/webhooks")
    page.locator("input[name=url]").fill(url)
    page.get_by_role("button", name="Add endpoint").click()
    page.locator("main table a").first.click()
    page.wait_for_url(re.compile(r"/webhooks/[0-9a-f-]{36}"))
    return path_of(page)


def set_cap(visit: Watched, *, amount: str) -> None:
    """A cap of the whole organisation."""
    page = visit.page
    visit.open("/portal/caps")
    page.get_by_label("Monthly cap").fill(amount)
    page.get_by_role("button", name="Set cap").click()
    expect(page.get_by_text("Spend cap set")).to_be_visible()
