"""Twenty processes post usage, retries and duplicates at once: `python -m benchmarks.ledger [--small]`.

Against organisations with caps, on a PostgreSQL that writes durably. Printed beside one another: rows a second in batches,
rows a second one by one, and the commits a second that the same database does when each writes a single bare row; for
each the processor time of a row, of the client and of its database session, which says more than the clock on a busy
machine. Every row has a rating of its own, made before the clock starts; its text and digest are made after.

Then all processes place holds where room is left for a few under each cap: exactly those fit. What is checked: every key
posted exactly once, no cap exceeded, no deadlock, the books whole; and how long a balance takes to read with a million rows.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID, uuid5

from benchmarks.arguments import parser
from benchmarks.private import house

ORGANISATIONS = 20
CONTRACTS = 3  # of each organisation
BATCH = 500
ROOM = 7  # holds that still fit under each cap when the race for them begins
REPEATED = 0.3  # of what is sent came before
SPACE = UUID("7a9c1a3e-32a5-4f3c-9a58-6d0e7d1f5b10")
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    processes: int
    batches: int  # of each process
    singles: int  # of each process
    holds: int  # that each process tries to place
    commits: int  # of each process
    rows: int  # when balances are read


FULL = Size(processes=20, batches=10, singles=60, holds=30, commits=200, rows=1_000_000)
SMALL = Size(processes=4, batches=3, singles=20, holds=60, commits=50, rows=20_000)


def main(arguments: list[str]) -> int:
    command = parser("ledger", __doc__)
    command.add_argument("--small", action="store_true", help="with few rows, in seconds")
    size = SMALL if command.parse_args(arguments).small else FULL
    with house():
        _prepare(size)
        return _judge(size)


def _contract(organisation: int, number: int) -> UUID:
    return uuid5(SPACE, f"contract {organisation} {number}")


def _organisation(number: int) -> UUID:
    return uuid5(SPACE, f"organisation {number}")


def _rating(executions: int = 256) -> Any:
    from tests.ledger.money import rating

    return rating(executions)


def _prepare(size: Size) -> None:
    """Organisations whose cap is what they hold, and room for a few holds more."""
    from apps.accounts.models import Organisation
    from apps.ledger.services import cap_set, hold_place
    from apps.pricing.rating import exact_sum, multiply

    amount = multiply(_rating().amount, size.rows + size.processes * (size.batches * BATCH + size.singles))
    for number in range(ORGANISATIONS):
        organisation = Organisation.objects.create(id=_organisation(number), name=f"O{number}", slug=f"o{number}")
        cap = exact_sum([multiply(amount, CONTRACTS), multiply(_rating().amount, ROOM)])
        cap_set(organisation=organisation, amount=cap, currency="EUR", now=NOW)
        for contract in range(CONTRACTS):
            contract_id = _contract(number, contract)
            hold_place(
                organisation_id=organisation.id,
                contract_id=contract_id,
                amount=amount,
                currency="EUR",
                idempotency_key=f"contract:{contract_id}",
                now=NOW,
            )


def _usage(organisation: int, contract: int, key: str, rating: Any = None) -> Any:
    """Usage whose content follows from its key, so that whoever repeats it says the same."""
    from apps.ledger.usage import Usage

    rating = rating or _rating(1 + hash_of(key) % 256)
    return Usage(
        organisation_id=_organisation(organisation),
        contract_id=_contract(organisation, contract),
        lease_id=uuid5(SPACE, key),
        idempotency_key=key,
        operations=rating.counted_operations,
        cycles=rating.counts.cycles * rating.executions,
        program_digest="ab" * 32,
        project_id=None,
        model_name="squeezenet",
        rating=rating,
        occurred_from=NOW,
        occurred_to=NOW + timedelta(seconds=1),
    )


def _batches(process: int, size: Size) -> list[list[Any]]:
    """Batches whose keys are fresh to seven tenths; the rest this or another process sent before or sends too."""
    drawn = random.Random(process)
    sent: list[list[Any]] = []
    for number in range(size.batches):
        organisation = drawn.randrange(ORGANISATIONS)
        keys = [f"{organisation}:{process}:{number}:{row}" for row in range(round(BATCH * (1 - REPEATED)))]
        again = [drawn.choice(keys) for _ in range((BATCH - len(keys)) // 2)]
        # Everybody sends these, and only the first is new.
        common = [f"{organisation}:all:{drawn.randrange(BATCH)}" for _ in range(BATCH - len(keys) - len(again))]
        every = [*keys, *again, *common]
        drawn.shuffle(every)
        sent.append([_usage(organisation, hash_of(key) % CONTRACTS, key) for key in every])
    return sent


def hash_of(key: str) -> int:
    """A number that is the same in every process."""
    return uuid5(SPACE, key).int


def _post_batches(process: int, size: Size, start: Any) -> dict[str, Any]:
    from apps.ledger.services import usage_post_batch

    work = _batches(process, size)
    return _measured(start, BATCH * len(work), lambda: sum(usage_post_batch(one, now=NOW).created for one in work))


def _post_singles(process: int, size: Size, start: Any) -> dict[str, Any]:
    from apps.ledger.services import usage_post

    drawn = random.Random(process)
    fresh = [f"one:{process}:{number}" for number in range(round(size.singles * (1 - REPEATED)))]
    again = [f"one:{(process + 1) % size.processes}:{number}" for number in range(size.singles - len(fresh))]
    keys = [*fresh, *again]
    drawn.shuffle(keys)
    work = [_usage(hash_of(key) % ORGANISATIONS, hash_of(key) % CONTRACTS, key) for key in keys]
    return _measured(start, len(work), lambda: sum(usage_post(one, now=NOW)[1] for one in work))


def _post_holds(process: int, size: Size, start: Any) -> dict[str, Any]:
    """Everybody wants the little room that is left under each cap."""
    from apps.ledger.services import CapReached, hold_place

    def place(number: int) -> bool:
        contract = uuid5(SPACE, f"race {process} {number}")
        try:
            hold_place(
                organisation_id=_organisation((process + number) % ORGANISATIONS),
                contract_id=contract,
                amount=_rating().amount,
                currency="EUR",
                idempotency_key=f"contract:{contract}",
                now=NOW,
            )
        except CapReached:
            return False
        return True

    return _measured(start, size.holds, lambda: sum(place(number) for number in range(size.holds)))


def _measured(start: Any, sent: int, work: Callable[[], int]) -> dict[str, Any]:
    """Do the work together with the others; when it began and ended, what it did, and the processor time it took."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (session,) = cursor.fetchone()
    start.wait()
    client, server, began = time.process_time(), _processor_time(session), time.monotonic()
    created = work()
    ended = time.monotonic()
    return {
        "began": began,
        "ended": ended,
        "sent": sent,
        "created": created,
        "client": time.process_time() - client,
        "server": _processor_time(session) - server,
    }


def _processor_time(process: int) -> float:
    """Seconds of processor time of another process so far (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _commit_bare(process: int, size: Size, start: Any) -> dict[str, Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, said text)" if not process else "SELECT 1"
        )

    def write() -> int:
        with connection.cursor() as each:
            for _ in range(size.commits):
                each.execute("INSERT INTO bare (said) VALUES ('x')")
        return size.commits

    return _measured(start, size.commits, write)


def _process(work: Callable[..., dict[str, Any]], process: int, size: Size, start: Any, results: Any) -> None:
    import django

    django.setup()
    try:
        results.put(work(process, size, start))
    except BaseException as error:  # noqa: BLE001 - what breaks is part of the answer
        start.abort()
        results.put({"broken": repr(error)})


@dataclass(frozen=True)
class Rate:
    """What so many processes did together."""

    sent: int
    created: int
    seconds: float
    client: float
    server: float
    broken: list[str]

    @property
    def told(self) -> str:
        """Sent, new, and the processor time of one."""
        each = 1e6 / max(1, self.sent)
        return (
            f"{self.sent / self.seconds:10,.0f} a second, {self.created / self.seconds:,.0f} of them new; processor time of "
            f"one {self.client * each:,.0f} us here + {self.server * each:,.0f} us in its session"
        )


def _together(work: Callable[..., dict[str, Any]], size: Size) -> Rate:
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(size.processes), context.Queue()
    crew = [context.Process(target=_process, args=(work, n, size, start, results)) for n in range(size.processes)]
    for one in crew:
        one.start()
    answers = [results.get(timeout=600) for _ in crew]
    for one in crew:
        one.join()
    broken = [answer["broken"] for answer in answers if "broken" in answer]
    told = [answer for answer in answers if "broken" not in answer]
    if not told:
        return Rate(0, 0, 1.0, 0.0, 0.0, broken)
    seconds = max(one["ended"] for one in told) - min(one["began"] for one in told)
    sums = {name: sum(one[name] for one in told) for name in ("sent", "created", "client", "server")}
    return Rate(sums["sent"], sums["created"], seconds, sums["client"], sums["server"], broken)


def _fill(rows: int) -> None:
    """Usage of one organisation until it has so many rows, in batches of a thousand."""
    from apps.ledger.models import UsageRow
    from apps.ledger.services import usage_post_batch

    ratings, first = (
        [_rating(one) for one in range(1, 257)],
        UsageRow.objects.filter(organisation_id=_organisation(0)).count(),
    )
    for number in range(first, rows, 1000):
        last = min(number + 1000, rows)
        usage_post_batch(
            [_usage(0, row % CONTRACTS, f"fill:{row}", ratings[row % 256]) for row in range(number, last)], now=NOW
        )


def _reads() -> dict[str, float]:
    """The median of fifty reads, in milliseconds."""
    from apps.ledger.models import AccountKind
    from apps.ledger.selectors import balance_of, balances, spending

    organisation = _organisation(0)
    reads: dict[str, Callable[[], Any]] = {
        "one balance": lambda: balance_of(organisation, AccountKind.ACCRUED, "EUR"),
        "all balances": lambda: balances(organisation),
        "used and held": lambda: spending(organisation_id=organisation, currency="EUR", now=NOW),
    }
    taken = {}
    for name, read in reads.items():
        times = []
        for _ in range(50):
            began = time.perf_counter()
            read()
            times.append((time.perf_counter() - began) * 1000)
        taken[name] = median(times)
    return taken


def _wrong(rates: list[Rate]) -> list[str]:
    """What does not hold after all of it; none is the normal answer."""
    from django.db.models import Count

    from apps.ledger.models import UsageRow
    from apps.ledger.reconciling import reconcile
    from apps.ledger.selectors import cap_of, spending

    wrong = [sentence for rate in rates for sentence in rate.broken]
    twice = UsageRow.objects.values("organisation", "idempotency_key").annotate(n=Count("id")).filter(n__gt=1).count()
    if twice:
        wrong.append(f"{twice} keys are posted twice")
    if UsageRow.objects.count() != sum(rate.created for rate in rates):
        wrong.append("what processes said they recorded is not what there is")
    for number in range(ORGANISATIONS):
        organisation = _organisation(number)
        cap = cap_of(organisation, currency="EUR")
        spent = spending(organisation_id=organisation, currency="EUR", now=NOW)
        if cap is None or spent.committed > cap.amount:
            wrong.append(f"organisation {number} is above its cap")
        wrong += reconcile(organisation).differences
        wrong += _refused_above_cap(number)
    return wrong


def _refused_above_cap(number: int) -> list[str]:
    from apps.ledger.services import CapReached, hold_place

    try:
        hold_place(
            organisation_id=_organisation(number),
            contract_id=uuid5(SPACE, f"more {number}"),
            amount=Decimal("1e-15"),
            currency="EUR",
            idempotency_key="more",
            now=NOW,
        )
    except CapReached:
        return []
    return [f"organisation {number} could set aside more than its cap"]


def _judge(size: Size) -> int:
    bare = _together(_commit_bare, size)
    batches = _together(_post_batches, size)
    singles = _together(_post_singles, size)
    holds = _together(_post_holds, size)
    print(f"{size.processes} processes, {ORGANISATIONS} organisations with caps, {REPEATED:.0%} retries and duplicates")
    names = ("bare commits of one row", f"usage in batches of {BATCH}", "usage one by one", "holds where few fit")
    for name, rate in zip(names, (bare, batches, singles, holds), strict=True):
        print(f"  {name:25s} {rate.told}", flush=True)
    wrong = [*_wrong([batches, singles]), *bare.broken, *holds.broken]
    if holds.created != ORGANISATIONS * ROOM:
        wrong.append(f"{holds.created} holds were placed where {ORGANISATIONS * ROOM} fit")
    _fill(size.rows)
    for name, milliseconds in _reads().items():
        print(f"  {name} with {size.rows:,} rows: {milliseconds:.2f} ms")
    for sentence in wrong[:10]:
        print("  WRONG:", sentence)
    print("WRONG" if wrong else "every key posted once, no cap exceeded, no deadlock, every difference 0")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
