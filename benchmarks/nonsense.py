"""Nonsense in every form of the product: each ends in a visible sentence or the right result. `python -m benchmarks.nonsense`

Starts the product, walks the way of a customer and of an administrator once (tests/e2e/places.py), and reads the forms of every
page. Each field of each form then gets each of VALUES while the other fields keep what the page shows, past every check of the
browser. An attempt is a fault if

- the server fails (a status of 500 or more),
- a refusal shows no sentence,
- a field for a number or an instant accepts letters or an emoji,
- a text that was refused is gone from its field.

Prints each fault and the counts, also if it is interrupted; the whole takes half an hour. `--only TEXT` tries the forms of the
pages whose name has TEXT. The status is 1 with a fault.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urljoin

from benchmarks.arguments import parser

VALUES = {
    "empty": "",
    "minus five": "-5",
    "zero": "0",
    "10^17": "1" + "0" * 17,
    "letters": "letters",
    "an emoji": "\N{FACE WITH TEARS OF JOY}",
    "10,000 characters": "x" * 10_000,
    "other digits": "\N{ARABIC-INDIC DIGIT FIVE}\N{ARABIC-INDIC DIGIT TWO}",
    "NUL": "a\0b",
}
NO_NUMBERS = frozenset({"letters", "an emoji", "10,000 characters", "NUL"})
NUMERIC = frozenset({"number", "range", "date", "datetime-local", "time", "month", "numeric", "decimal"})
TYPED = frozenset({"text", "textarea", "email", "url", "numeric", "decimal"})
# They end the session or the organisation with which the other forms are tried.
ENDS = ("/sign-out", "/delete", "/leave", "/sessions")
PARSE = """html => {
  const page = new DOMParser().parseFromString(html, 'text/html');
  const text = part => part.tagName === 'INPUT' ? part.getAttribute('value') || '' : part.textContent;
  const said = page.querySelectorAll(
    '.form-error, .note, .alert, [role=alert], [role=status], .error-list, .text-danger, .problem');
  const words = Array.from(said).map(part => part.textContent.trim()).filter(Boolean);
  const values = Array.from(page.querySelectorAll('input, textarea')).map(text);
  const bad = '.form-error, .note-danger, [role=alert], .error-list, .text-danger';
  return {refused: page.querySelector(bad) !== null, words: words, values: values, title: page.title};
}"""
FORMS = """() => Array.from(document.querySelectorAll('form')).map((form, place) => ({
  place: place, method: form.method,
  action: (to => to.pathname + to.search)(new URL(form.getAttribute('action') || location.href, location.href)),
  multipart: form.enctype === 'multipart/form-data', preview: form.getAttribute('hx-get') || '',
  shown: Array.from(
    new FormData(form, form.querySelector('button:not([type]), [type=submit]')).entries()
  ).filter(pair => typeof pair[1] === 'string'),
  fields: Array.from(form.elements).filter(part => part.name && part.type !== 'submit' && part.name !== 'csrfmiddlewaretoken')
    .map(part => ({name: part.name, kind: part.tagName === 'INPUT' ? part.type : part.tagName.toLowerCase(),
                   mode: part.inputMode || '', required: part.required}))}))"""


@dataclass(frozen=True)
class Attempt:
    """One value in one field of one form."""

    page: str
    method: str
    action: str
    field: str
    kind: str
    label: str
    went_on: bool  # the answer led to another page

    def __str__(self) -> str:
        return f"{self.page}: {self.label} in {self.field} ({self.kind}) of {self.action.split('?')[0]}"


@dataclass(frozen=True)
class Outcome:
    """What an attempt ended in: `fault` is empty where all is well; `result` counts it."""

    attempt: Attempt
    result: str
    fault: str = ""
    words: str = ""


def main(arguments: list[str]) -> int:
    """Try everything; 1 if there is a fault."""
    reader = parser("nonsense", __doc__ or "")
    reader.add_argument("--only", default="", help="the pages whose name has this text")
    reader.add_argument("--show", action="store_true", help="print what every attempt ended in")
    asked = reader.parse_args(arguments)
    outcomes = []
    with suppress(KeyboardInterrupt):  # the counts so far are printed
        for outcome in tried(only=asked.only):
            outcomes.append(outcome)
            if outcome.fault or asked.show:
                print(f"{outcome.attempt}: {outcome.fault or outcome.result}: {outcome.words[:160]!r}", flush=True)
            elif len(outcomes) % 500 == 0:
                print(f"{len(outcomes):,} attempts so far, the last on {outcome.attempt.page}", flush=True)
    counts = Counter(outcome.result for outcome in outcomes)
    forms = len({(one.attempt.page, one.attempt.action) for one in outcomes})
    faults = sum(bool(one.fault) for one in outcomes)
    print(f"{len(outcomes):,} attempts on {forms} forms: {dict(counts)}; {faults} faults")
    return 1 if faults else 0


def tried(*, only: str = "") -> Iterator[Outcome]:
    """Every attempt on every form of every page, by the visitors of the walk."""
    from tests.e2e import visit as visiting
    from tests.e2e.places import make_places
    from tests.e2e.product import running_product

    with running_product() as product, visiting.chromium() as opened:
        places = make_places(opened, product)
        done: set[tuple[str, str, str]] = set()
        for state, pages in places.groups():
            profile = visiting.context(opened, state=state)
            visit = visiting.watched(profile, product.url)
            blank = profile.new_page()
            for name, path in pages.items():
                if only not in name:
                    continue
                answer = visit.page.goto(product.url + path)
                if (
                    answer is None or answer.status != 200
                ):  # an earlier attempt changed what the page is about, such as the fleet
                    print(f"{name} cannot be opened any more: {answer and answer.status}", flush=True)
                    continue
                for form in visit.page.evaluate(FORMS):
                    if not any(end in form["action"] for end in ENDS):
                        yield from _form(profile, blank, product.url, name, form, done)
            profile.close()


def _form(
    profile: Any, blank: Any, base: str, page: str, form: dict[str, Any], done: set[tuple[str, str, str]]
) -> Iterator[Outcome]:
    """Each value in each field; a form that stands on several pages is tried on the first."""
    for field in form["fields"]:
        marks = ",".join(sorted(name for name, _ in form["shown"]))
        key = (_shape(form["action"]), marks, field["name"])
        if key in done or field["kind"] in {"file", "button", "reset", "fieldset"}:
            continue
        done.add(key)
        kind = field["kind"] if field["kind"] != "text" else field["mode"] or "text"
        for label, value in VALUES.items():
            answer = _send(profile, base, form, field["name"], value)
            went_on = 300 <= answer.status < 400
            if went_on:  # a refusal may stand on the page that follows
                answer = profile.request.get(urljoin(answer.url, answer.headers["location"]))
            attempt = Attempt(page, form["method"], form["action"], field["name"], kind, label, went_on)
            yield _judged(attempt, answer, blank, value)


def _shape(action: str) -> str:
    """An address without what differs between two objects of one kind."""
    parts = action.split("?", maxsplit=1)[0].split("/")
    return "/".join("*" if len(part) == 36 or part.isdigit() else part for part in parts)


def _send(profile: Any, base: str, form: dict[str, Any], name: str, value: str) -> Any:
    """The answer to the form with `value` in the field `name`; a browser's own checks are not asked."""
    pairs = urlencode([*((key, text) for key, text in form["shown"] if key != name), (name, value)])
    url = base + form["action"]
    headers = {"Referer": base + "/"}
    if form["method"] == "get":
        return profile.request.get(f"{url.split('?')[0]}?{pairs}", headers=headers, max_redirects=0)
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    return profile.request.post(url, data=pairs, headers=headers, max_redirects=0)


def _judged(attempt: Attempt, answer: Any, blank: Any, value: str) -> Outcome:
    """What the answer says, and whether that is a fault."""
    status = answer.status
    if status >= 500:
        return Outcome(attempt, "failed", f"status {status}")
    if "html" not in answer.headers.get("content-type", ""):
        return Outcome(attempt, "file", "refused without a page" if status >= 400 else "")
    seen = blank.evaluate(PARSE, answer.text())
    words = " | ".join(seen["words"])
    if status < 400 and attempt.method == "get":
        return Outcome(attempt, "shown", "", words)
    if attempt.went_on and not seen["refused"]:
        fits = attempt.kind not in NUMERIC or attempt.label not in NO_NUMBERS
        return Outcome(attempt, "accepted", "" if fits else "accepted", words)
    return Outcome(attempt, "refused", _refusal_fault(attempt, status, seen, value), words or seen["title"])


def _refusal_fault(attempt: Attempt, status: int, seen: dict[str, Any], value: str) -> str:
    """Return what a refusal lacks: a sentence, or the text that was typed. Empty if it lacks nothing."""
    if not seen["words"] and status < 400 and attempt.kind != "hidden":  # nobody types into a hidden field
        return "no sentence"
    is_shown_again = status < 400 and attempt.kind in TYPED and not attempt.went_on
    is_lost = is_shown_again and bool(value.strip()) and "\0" not in value and value not in seen["values"]
    return "what was typed is gone" if is_lost else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
