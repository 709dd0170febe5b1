"""The upload page in a real browser: refusals in words, resuming, dropping a file anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import sample
from threading import Event, Thread

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, Page, Route, expect
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import User
from apps.registry.models import ModelVersion, Upload
from tests.cast import Cast
from tests.registry import models
from tests.registry.helpers import check_all
from tests.tiers import some

PATIENT = 60_000
VERSION = re.compile(r"/(versions|compiles/requests)/[0-9a-f-]{36}$")  # an upload is compiled at once


@pytest.fixture
def page(chromium: Browser, live_server: LiveServer, cast: Cast, as_user: Callable[[User], Client]) -> Iterator[Page]:
    """The upload page as the engineer sees it; errors in its scripts fail the test."""
    session = as_user(cast.engineer).cookies[settings.SESSION_COOKIE_NAME].value
    context = chromium.new_context(base_url=live_server.url)
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}])
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.goto("/models/upload")
    yield opened
    context.close()
    assert faults == []


@pytest.fixture(autouse=True)
def _checking(transactional_db: None) -> Iterator[None]:
    """A worker of the queue `check`, in a thread of this process."""
    stop = Event()

    def work() -> None:
        while not stop.wait(0.05):
            check_all()
        connection.close()

    worker = Thread(target=work)
    worker.start()
    yield
    stop.set()
    worker.join()


def choose(page: Page, data: bytes) -> None:
    page.locator("input[type=file]").set_input_files(
        {"name": "net.onnx", "mimeType": "application/octet-stream", "buffer": data}
    )


def send(page: Page, data: bytes) -> None:
    choose(page, data)
    page.get_by_role("button", name="Upload", exact=True).click()


def test_every_hostile_file_is_refused_in_words_and_the_page_stays_usable(page: Page) -> None:
    """All of them in the whole, others each time for a change: tests/registry checks each without a browser."""
    from apps.registry.inspection.compilable import supported_operators
    from apps.registry.inspection.report import inspect

    for name in sample(sorted(models.HOSTILE), some(len(models.HOSTILE))):
        make, _ = models.HOSTILE[name]
        send(page, make())
        for problem in inspect(make(), supported_operators())["problems"]:
            expect(page.locator("#upload-problem")).to_contain_text(problem["message"], timeout=PATIENT)
    assert not Upload.objects.exclude(state=Upload.State.REFUSED).exists()
    assert not ModelVersion.objects.exists()
    send(page, models.small())
    page.wait_for_url(VERSION, timeout=PATIENT)
    assert ModelVersion.objects.count() == 1


def test_the_head_of_the_file_is_read_before_it_is_sent(page: Page) -> None:
    choose(page, models.sample())
    expect(page.locator("#upload-head")).to_contain_text("Opset 17: 2 x Conv")
    choose(page, models.unknown_operators())
    expect(page.locator("#upload-head")).to_contain_text("Not supported: com.example.FancyAttention, Wibble.")
    assert not Upload.objects.exists()


def test_an_upload_goes_on_where_a_lost_connection_stopped_it(page: Page, tmp_path: Path) -> None:
    """Pieces of 100 kB; the third is lost until the page was loaded again, and what had arrived is not sent twice."""
    sent: list[int] = []
    broken = True

    def watch(route: Route) -> None:
        offset = int(route.request.url.rpartition("/")[2])
        if broken and offset >= 200_000:
            route.abort()
            return
        sent.append(offset)
        route.continue_()

    def smaller(route: Route) -> None:
        answer = route.fetch()
        changed = re.sub(r'"chunk_bytes": \d+', '"chunk_bytes": 100000', answer.text())
        assert changed != answer.text()
        route.fulfill(response=answer, body=changed)

    file = tmp_path / "net.onnx"  # the same file twice: same name, size and time
    file.write_bytes(models.sample())

    def send_file() -> None:
        page.locator("input[type=file]").set_input_files(file)
        page.get_by_role("button", name="Upload", exact=True).click()

    page.route("**/models/upload", smaller)
    page.route("**/chunks/*", watch)
    page.goto("/models/upload")
    send_file()
    expect(page.locator("#upload-status")).to_contain_text("trying again from", timeout=PATIENT)
    assert Upload.objects.get(state=Upload.State.OPEN).received == 200_000
    broken = False
    page.goto("/models/upload")
    send_file()
    page.wait_for_url(VERSION, timeout=PATIENT)
    assert sorted(sent) == [0, 100_000, 200_000, 300_000]


def test_a_file_dropped_anywhere_on_the_page_is_uploaded(page: Page) -> None:
    page.evaluate(
        """data => {
            const moved = new DataTransfer();
            moved.items.add(new File([new Uint8Array(data)], "dropped.onnx"));
            const options = {dataTransfer: moved, bubbles: true, cancelable: true};
            document.querySelector("footer").dispatchEvent(new DragEvent("drop", options));
        }""",
        list(models.small()),
    )
    page.wait_for_url(VERSION, timeout=PATIENT)
    assert ModelVersion.objects.get().model.name == "dropped"


def test_a_model_and_its_side_file_are_chosen_together(page: Page) -> None:
    files = models.with_side_file()
    page.locator("input[type=file]").set_input_files(
        [{"name": n, "mimeType": "application/octet-stream", "buffer": data} for n, data in files.items()]
    )
    expect(page.locator("#upload-head")).to_contain_text("1 x MatMul")
    page.get_by_role("button", name="Upload", exact=True).click()
    page.wait_for_url(VERSION, timeout=PATIENT)
    version = ModelVersion.objects.get()
    assert (version.model.name, version.filename, version.parameters) == ("net", "net.tar", 16)


def test_a_sample_is_one_click(page: Page) -> None:
    page.locator("form", has_text="Digits, small").get_by_role("button").click()
    page.wait_for_url(VERSION, timeout=PATIENT)
    assert ModelVersion.objects.get().evaluations.count() == 1
