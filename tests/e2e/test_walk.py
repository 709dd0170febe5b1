"""The product in a real browser: a customer goes the whole way, then every page is checked on a phone.

The whole of the tests reads every page's colours too, in the light and in the dark, and follows every link.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from django.urls import get_resolver, resolve
from playwright.sync_api import expect

from tests.compiler.face.test_diff import network
from tests.e2e import clicks, keys, people, programs, tabs, walk
from tests.e2e import visit as visiting
from tests.e2e.addresses import ELSEWHERE, NO_PAGES, STEPS, page_names
from tests.e2e.places import make_places
from tests.e2e.product import running_product
from tests.e2e.seeing import Seen, Walked, faults_of, see_all
from tests.tiers import WHOLE

IDENTITY = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")  # what a thing is known by in an address
VALUES = "cells => cells.map(cell => Number(cell.dataset.value))"


@pytest.fixture(scope="module")
def walked(django_db_setup: None) -> Iterator[Walked]:
    """From sign-up over upload, compile, plan, quote, contract and job to the invoice: it fails here if a step fails."""
    with running_product(copy_of="migrated") as product, visiting.chromium() as browser:
        yield Walked(product, browser, make_places(browser, product))


def test_the_walk_leaves_no_word_on_the_console(walked: Walked) -> None:
    assert walked.places.console == []


def test_an_account_lives_in_a_browser(walked: Walked) -> None:
    """Mail, authenticator app, passkey and a new password, without a word on the console."""
    profile = visiting.context(walked.browser)
    visit = visiting.watched(profile, walked.product.url)
    people.live(visit, name="Petra", email="petra@example.com")
    assert visit.noted() == []
    profile.close()


def test_the_first_hour_takes_few_clicks(walked: Walked) -> None:
    """At most 6 clicks to the report of an own model, 8 to a quote, 12 to a result; no page is reloaded by hand."""
    profile = visiting.context(walked.browser)
    visit = visiting.watched(profile, walked.product.url)
    visit.open("/")
    counted = clicks.Clicks(visit.page)
    assert clicks.to_first_report(counted, email="nora@example.com", model=walk.SAMPLES / "digits-batch.onnx") <= 6
    assert clicks.to_first_quote(counted) <= 8
    assert clicks.to_first_result(counted) <= 12
    assert visit.noted() == []
    profile.close()


def test_two_tabs_and_the_back_button_buy_once(walked: Walked) -> None:
    """Nothing is bought twice, and nothing that is no longer offered."""
    visit = walked.member()
    program = walked.places.member["report"].rsplit("/", 1)[-1]
    tabs.accept_in_two_tabs(visit, program)
    tabs.accept_what_was_withdrawn(visit, program)


def test_the_report_draws_its_charts_and_their_tables_say_the_same(walked: Walked) -> None:
    visit = walked.member()
    visit.open(walked.places.member["report"])
    page = visit.page
    for place in ("operations", "timeline", "memory"):
        expect(page.locator(f"#{place} canvas").first).to_be_visible()
    page.locator("#graph-stage").scroll_into_view_if_needed()
    nodes = page.locator(".graph-node")
    expect(nodes.first).to_be_visible()
    nodes.first.click()
    expect(page.locator("tr.is-chosen")).to_have_count(1)
    cycles = page.locator("#operation-table tbody td:nth-child(4)").evaluate_all(VALUES)
    total = page.locator("#operation-table tfoot tr:last-child td").nth(2).inner_text()
    rest = page.locator("#operation-table tfoot tr.row-rest td").nth(2).inner_text()
    assert sum(cycles) + int(rest.replace(",", "")) == int(total.replace(",", ""))
    assert visit.noted() == []


def test_the_table_of_operations_sorts_and_filters(walked: Walked) -> None:
    visit = walked.member()
    visit.open(walked.places.member["report"])
    page = visit.page
    page.get_by_role("button", name="Starts", exact=True).click()
    page.get_by_role("button", name="Starts", exact=True).click()
    starts = page.locator("#operation-table tbody td:nth-child(12)").evaluate_all(VALUES)
    assert starts == sorted(starts)
    page.get_by_label("Filter the operations").fill("vector unit")
    shown = page.locator("#operation-table tbody tr:not([hidden])")
    assert 0 < shown.count() < len(starts)
    expect(page.locator("#operation-count")).to_have_text(f"{shown.count()} of {len(starts)}")


def test_every_file_of_a_program_can_be_downloaded(walked: Walked) -> None:
    visit = walked.member()
    visit.open(walked.places.member["report"])
    for kind in ("report.json", "operations.csv", "trace.json", "program.bin", "program.asm", "graph.takt.txt"):
        with visit.page.expect_download() as waiting:
            visit.page.locator(f"#downloads a[href$='{kind}']").click()
        content = waiting.value.path().read_bytes()
        assert len(content) > 200, kind
        if kind.endswith(".json"):
            assert json.loads(content), kind


def test_the_page_says_the_same_without_a_script(walked: Walked) -> None:
    profile = walked.browser.new_context(java_script_enabled=False, storage_state=walked.places.member_state)
    page = profile.new_page()
    page.goto(walked.product.url + walked.places.member["report"])
    expect(page.locator("#operation-table tbody tr").first).to_be_visible()
    expect(page.get_by_role("region", name="Utilisation of each unit")).to_be_visible()
    expect(page.get_by_role("region", name="Buffers")).to_be_visible()
    profile.close()


def test_a_person_may_choose_the_dark(walked: Walked) -> None:
    visit = walked.member()
    visit.open("/")
    html = visit.page.locator("html")
    expect(html).to_have_attribute("data-bs-theme", "light")
    visit.page.get_by_role("button", name="Dark", exact=True).click()
    expect(html).to_have_attribute("data-bs-theme", "dark")
    visit.open("/models")
    expect(html).to_have_attribute("data-bs-theme", "dark")
    visit.page.get_by_role("button", name="As the system").click()
    expect(html).to_have_attribute("data-bs-theme", "light")


def test_the_menu_opens_on_a_phone_without_a_script(walked: Walked) -> None:
    profile = walked.browser.new_context(
        java_script_enabled=False,
        storage_state=walked.places.member_state,
        viewport=visiting.PHONE,  # type: ignore[arg-type]
    )
    page = profile.new_page()
    page.goto(walked.product.url)
    menu = page.get_by_role("navigation", name="Main")
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Open the menu").click()
    expect(menu.get_by_role("link", name="Models")).to_be_visible()
    profile.close()


def test_search_is_opened_chosen_from_and_closed_by_the_keyboard(walked: Walked) -> None:
    visit = walked.member()
    visit.open("/jobs")
    page = visit.page
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search")
    expect(box).to_be_focused()
    page.keyboard.type("digits")
    options = page.get_by_role("listbox", name="Results").get_by_role("option")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    assert box.get_attribute("aria-activedescendant") == options.nth(1).get_attribute("id")
    assert visit.barriers() == []
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("digits-large")
    expect(options.first).to_contain_text("digits-large")
    page.keyboard.press("Enter")
    page.wait_for_url("**/versions/*")
    assert visit.noted() == []


def test_keyboard_shortcuts_are_listed_and_can_be_turned_off(walked: Walked) -> None:
    visit = walked.member()
    visit.open("/jobs")
    page = visit.page
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.wait_for_url("**/models")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert visit.barriers() == []
    page.get_by_label("Use single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.get_by_label("Use single-key shortcuts").check()
    page.keyboard.press("Escape")


def test_a_copy_button_copies_the_whole_value_and_says_so(walked: Walked) -> None:
    visit = walked.member()
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.open("/models")
    button = visit.page.get_by_role("button", name="Copy the whole digest").first
    button.click()
    expect(visit.page.locator("#live")).to_have_text("Copied")
    assert visit.page.evaluate("navigator.clipboard.readText()") == button.get_attribute("data-copy")


def test_a_question_mark_opens_its_definition(walked: Walked) -> None:
    visit = walked.member()
    visit.open(walked.places.member["report-int8"])
    visit.page.get_by_role("button", name="What is latency?").click()
    expect(visit.page.locator(".define-text:popover-open")).to_contain_text("first input byte")


def test_quoted_and_invoiced_are_the_same_price(walked: Walked) -> None:
    """Two thousand were bought and two run: each costs on the invoice what it cost on the quote."""
    visit = walked.member()
    visit.open(walked.places.member["contract"])
    row = visit.page.locator("table tbody tr").first
    numbers = [re.sub(r"[^0-9.]", "", cell.split("\n")[0]) for cell in row.locator("td").all_inner_texts()]
    bought, used, quoted, actual = int(numbers[1]), int(numbers[3]), numbers[4], numbers[5]
    assert Decimal(actual) * bought == Decimal(quoted) * used


@pytest.fixture(scope="module")
def seen(walked: Walked) -> Seen:
    """Every page as its visitor sees it on a phone, opened once."""
    return see_all(walked)


def test_every_page_fits_a_phone_and_can_be_read_by_everybody(seen: Seen) -> None:
    """No horizontal overflow, no moderate or worse finding of axe-core, no word on the console. The whole
    checks contrast."""
    assert seen.on_a_phone == []


@pytest.mark.thorough
def test_every_page_has_contrast_in_the_light_and_fits_in_the_dark(walked: Walked) -> None:
    """Every page wide and dark, then as on a phone in the light. Of axe-core's rules the one about colours: structure and
    names are looked at on a phone."""
    wrong: list[str] = []
    for state, pages in walked.places.groups():
        profile = visiting.context(walked.browser, state=state)
        visit = visiting.watched(profile, walked.product.url)
        for name, path in pages.items():
            visit.show(size=visiting.WIDE, dark=True)
            visit.open(path)
            wrong += [f"{name}, dark: {one}" for one in faults_of(visit, contrast=True)]
            visit.show(size=visiting.PHONE, dark=False)
            visit.drawn()
            wrong += [f"{name}, on a phone: {one}" for one in faults_of(visit, contrast=True)]
        profile.close()
    assert wrong == []


def test_no_link_of_any_page_is_dead(walked: Walked, seen: Seen) -> None:
    """Each visitor follows every link that the pages show, files included, each once. For every change only the first of
    those that differ in nothing but the thing they are about and the query."""
    wrong: list[str] = []
    for state, shown in seen.links:
        profile = visiting.context(walked.browser, state=state)
        firsts = {IDENTITY.sub("", link.partition("?")[0]): link for link in reversed(shown)}
        assert firsts
        for link, name in shown.items() if WHOLE else ((one, shown[one]) for one in firsts.values()):
            status = profile.request.get(walked.product.url + link).status
            if status >= 400:
                wrong.append(f"{name} links to {link}, which answers {status}")
        profile.close()
    assert wrong == []


def test_every_page_has_its_pictures_and_checks(walked: Walked) -> None:
    """What opens with a GET and is a page stands in the list of places."""
    known = {resolve(path.split("?")[0]).view_name for _, pages in walked.places.groups() for path in pages.values()}
    assert page_names(get_resolver()) - known == NO_PAGES | ELSEWHERE | STEPS


@pytest.mark.parametrize(
    ("path", "status"), [("/programs/00000000-0000-0000-0000-000000000000", 404), ("/no-such-page", 404)]
)
def test_a_missing_page_says_so_and_leads_back(walked: Walked, path: str, status: int) -> None:
    visit = walked.member()
    visit.open(path, status=status)
    expect(visit.page.get_by_role("heading", level=1)).to_be_visible()
    assert visit.page.locator("main a[href='/']").count()
    assert visit.overflow() == []


def test_a_whole_purchase_by_the_keyboard_alone(walked: Walked, tmp_path: Path) -> None:
    """Sign-in, upload, compile, quote, accept, run, invoice: every stop of Tab is seen, and no step needs a mouse."""
    model = network(5)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(model, tmp_path / "keys.onnx")
    profile = visiting.context(walked.browser)
    demo = walked.product.demo
    invoice = keys.buy(
        visiting.watched(profile, walked.product.url),
        email=demo["email"],
        password=demo["password"],
        model=tmp_path / "keys.onnx",
    )
    assert invoice.startswith("/invoices/")
    profile.close()


def test_the_typed_client_goes_the_whole_way(walked: Walked, tmp_path: Path) -> None:
    model, net = tmp_path / "client.onnx", network(3)
    net.ir_version = 10  # ONNX Runtime reads no newer one
    onnx.save(net, model)
    with programs.client_of(walked.product) as client:
        job, inputs, outputs = programs.buy_and_run(client, model, items=3)
        assert (job.state, job.executions_done, job.cost) == ("done", 3, job.quoted)
        runtime = onnxruntime.InferenceSession(model.read_bytes(), providers=["CPUExecutionProvider"])
        for item in range(3):
            expected = runtime.run(None, {name: array[item] for name, array in inputs.items()})
            for one, name in zip(expected, outputs, strict=True):
                np.testing.assert_allclose(outputs[name][item], one, rtol=1e-4, atol=1e-5)
        assert client.upload(model).model == "by the client"  # the same bytes are the same version
        assert any(contract.id == job.contract for contract in client.contracts())
        assert client.draft() is not None


def test_an_assistant_spends_only_with_a_cap(walked: Walked, tmp_path: Path) -> None:
    client = programs.client_of(walked.product)
    token = client.me().token

    async def work(call: programs.Call) -> None:
        found = await call("list_models", {})
        program = next(one for one in found["programs"] if one["processor"] == "lpu")["id"]
        quote = await call("make_quote", {"program": program, "executions": 2})
        assert "no spend cap" in (await call("accept_quote", {"quote": quote["id"]}))["error"]
        assert client.get(f"/quotes/{quote['id']}")["state"] == "open"
        client.request("PUT", f"/spend-caps/tokens/{token}", json={"amount": "50.00"})
        contract = await call("accept_quote", {"quote": quote["id"]})
        assert contract["net"] == quote["net"]
        shapes = {one["name"]: one["shape"] for one in (await call("program_report", {"program": program}))["inputs"]}
        file, result = tmp_path / "inputs.npz", tmp_path / "outputs.npz"
        np.savez(file, **{name: np.zeros((2, *shape), "float32") for name, shape in shapes.items()})
        job = await call("submit_job", {"contract": contract["contract"], "inputs": str(file)})
        client.wait(job["job"])
        done = await call("job_result", {"job": job["job"], "save_to": str(result)})
        assert (done["state"], done["done"], result.exists()) == ("done", 2, True)
        assert "error" in await call("job_result", {"job": job["job"], "save_to": str(result)})
        assert "not-found" in (await call("program_report", {"program": quote["id"]}))["error"]
        assert (await call("spending", {}))["caps"]

    programs.by_assistant(walked.product, work)


def test_a_stranger_is_asked_to_sign_in(walked: Walked) -> None:
    profile = visiting.context(walked.browser)
    visit = visiting.watched(profile, walked.product.url)
    visit.open("/models")
    assert walk.path_of(visit.page).startswith("/sign-in")
    profile.close()
