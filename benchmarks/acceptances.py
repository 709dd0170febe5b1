"""Many customers accept quotes for the last window at the same moment: `python -m benchmarks.acceptances [COUNT]`.

Four processes, a thread and a database connection for each quote, let go together. One must win; every other must be told
why; capacity, hold and contract must exist exactly once.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

from benchmarks.arguments import counts
from benchmarks.private import house

PROCESSES = 4
HOUR = 3600 * 10_000  # executions of 90,000 cycles at 900 MHz


def main(arguments: list[str]) -> int:
    (count,) = counts("acceptances", __doc__, arguments, count=200)
    with house():
        quotes, now = _prepare(count)
        began = time.monotonic()
        answers = _race(quotes, now)
        seconds = time.monotonic() - began
        return _judge(count, answers, seconds)


def _prepare(count: int) -> tuple[list[tuple[UUID, UUID]], Any]:
    """`count` quotes of two organisations, each for an hour in a window of an hour and a half on one device."""
    from django.utils import timezone

    from apps.sales.services import quote_create
    from tests.cast import assemble
    from tests.sales.market import open_market

    cast, market, now = assemble(), open_market(devices=1), timezone.now()
    owners = ((cast.organisation, cast.engineer), (cast.stranger_organisation, cast.stranger))
    programs = [(organisation, market.program(organisation, user)) for organisation, user in owners]
    quotes = []
    for number in range(count):
        organisation, program = programs[number % 2]
        quote = quote_create(
            organisation=organisation,
            lines=[(program, HOUR)],
            klass="standard",
            pool=market.lpu,
            window=(now, now + timedelta(hours=1, minutes=30)),
            actor=None,
            now=now,
        )
        quotes.append((quote.id, organisation.id))
    return quotes, now


def _race(quotes: list[tuple[UUID, UUID]], now: Any) -> list[tuple[str, str]]:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(len(quotes)), context.Queue()
    crews = [
        context.Process(target=_crew, args=(quotes[n::PROCESSES], now, barrier, results)) for n in range(PROCESSES)
    ]
    for crew in crews:
        crew.start()
    answers = [results.get(timeout=300) for _ in quotes]
    for crew in crews:
        crew.join()
    return answers


def _crew(quotes: list[tuple[UUID, UUID]], now: Any, barrier: Any, results: Any) -> None:
    import django

    django.setup()
    threads = [threading.Thread(target=_accept, args=(*one, now, barrier, results)) for one in quotes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _accept(quote_id: UUID, organisation_id: UUID, now: Any, barrier: Any, results: Any) -> None:
    from django.db import connection

    from apps.accounts.models import Organisation
    from apps.accounts.problems import Problem
    from apps.sales.services import quote_accept

    try:
        organisation = Organisation.objects.get(pk=organisation_id)
        barrier.wait(timeout=120)
        quote_accept(quote_id=quote_id, organisation=organisation, actor=None, now=now)
        results.put(("won", ""))
    except Problem as refusal:
        results.put((refusal.kind, refusal.detail))
    except Exception as error:  # noqa: BLE001 - what breaks is part of the answer
        results.put(("broken", repr(error)))
    finally:
        connection.close()


def _judge(count: int, answers: list[tuple[str, str]], seconds: float) -> int:
    from apps.ledger.models import Hold
    from apps.sales.models import Contract
    from apps.timetable.models import Refusal, Window

    kinds = Counter(kind for kind, _ in answers)
    rows = {model.__name__: model.objects.count() for model in (Contract, Hold, Window, Refusal)}  # type: ignore[attr-defined]
    print(f"{count} acceptances at once, {PROCESSES} processes, {seconds:.1f} s with starting them")
    for kind, number in kinds.most_common():
        print(f"  {number:5d}  {kind}")
    print("  rows:", ", ".join(f"{name} {number}" for name, number in rows.items()))
    told = sorted({sentence for kind, sentence in answers if kind != "won"})
    print(f"  told, for example: {told[0] if told else '-'}")
    right = (
        kinds["won"] == 1
        and kinds["capacity-taken"] == count - 1
        and rows == {"Contract": 1, "Hold": 1, "Window": 1, "Refusal": count - 1}
        and all(sentence.endswith(".") for sentence in told)
    )
    print("one wins, the others are told why" if right else "WRONG")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
