"""Random histories of invoices at Stripe: `python -m benchmarks.stripe [COUNT] [FIRST] [SEED]`.

Each has up to three invoices, and at random voids, credit notes, write-offs, transfers, refunds and disputes, customers who
pay on Stripe's page, answers that are lost, processes that die before or after Stripe acted, hours and days that pass, and
events that come late, twice and in another order. Then Stripe answers again and everything is settled: what Stripe holds
must equal the books, nobody may have paid twice, no event and no call may be left. At last a difference is planted on
either side, which the check must find. The tests' double is called without a network. Ends with status 1 on a miss.

COUNT histories from number FIRST on (to go on where a run was broken off); the same SEED gives the same histories, and the
same digest of how they ended.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.arguments import counts
from benchmarks.private import house

EVERY = 100  # histories between two lines


def main(arguments: list[str]) -> int:
    count, first, seed = counts("stripe", __doc__, arguments, count=2000, first=0, seed=1)
    digest, found, misses = hashlib.sha256(), Counter[str](), 0
    with house(), quiet():
        from tests.cast import assemble
        from tests.stripe.histories import told
        from tests.stripe.stage import contract_for

        with _same_ids(str(seed)):
            cast = assemble()
            contract = contract_for(cast)
        begun = time.monotonic()
        for number in range(first, first + count):
            with _same_ids(f"{seed}:{number}"):
                one = told(cast, contract, f"{seed}:{number}")
            digest.update(one.ended.encode())
            found += one.counts
            for sentence in one.wrong:
                print(f"history {number}: {sentence}", flush=True)
            if one.missed:
                print(f"history {number}: the check did not find what was planted: {one.missed}", flush=True)
            misses += bool(one.wrong or one.missed)
            if (number - first + 1) % EVERY == 0:
                print(
                    f"{number - first + 1:,} histories, {misses} missed, {time.monotonic() - begun:.0f} s", flush=True
                )
    _summary(found)
    print(f"{count:,} histories from {first} on, seed {seed}: {misses} missed; digest {digest.hexdigest()[:16]}")
    return 1 if misses else 0


def _summary(found: Counter[str]) -> None:
    groups = {"fate ": "requests that met a fate", "planted: ": "differences planted and found", "refused ": "refusals"}
    for start, title in groups.items():
        some = {name.removeprefix(start): number for name, number in found.items() if name.startswith(start)}
        print(f"{title}: {sum(some.values()):,} (" + ", ".join(f"{name} {some[name]:,}" for name in sorted(some)) + ")")
    acts = {name: number for name, number in found.items() if not name.startswith(tuple(groups))}
    print("acts: " + ", ".join(f"{name} {acts[name]:,}" for name in sorted(acts)))


@contextmanager
def quiet() -> Iterator[None]:
    """Outages are what this is about: nothing is logged of them, and nobody waits out a 429."""
    from apps.collection import gateway

    pauses, gateway.PAUSES = gateway.PAUSES, (0.0,) * len(gateway.PAUSES)  # type: ignore[assignment]
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        gateway.PAUSES = pauses
        logging.disable(logging.NOTSET)


@contextmanager
def _same_ids(seed: str) -> Iterator[None]:
    """Ids are random; here they are the same in every run, since some things are done in their order."""
    real = os.urandom
    os.urandom = random.Random(seed).randbytes  # type: ignore[assignment]
    try:
        yield
    finally:
        os.urandom = real


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
