"""Standing requests against random releases: `python -m benchmarks.standing [REQUESTS] [RELEASES] [SEED]`

The eight devices of a pool are sold out by contracts; REQUESTS of 20 organisations wait, small and large, in one piece or cut, at
different prices and until different times, filed over two days. RELEASES contracts end at random instants, and after each the
pool is served, through the real services on PostgreSQL. Exit status 1 when:

- a request was served above its price, or a window of it ends after its time;
- a request starved: another was placed on time that a protected request before it had claimed, or after a round a waiting
  request would fit, at its price, in what is free and in no older claim;
- what is held is not what contracts and waiting requests set aside, or the ledger has another difference.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from benchmarks.arguments import counts
from benchmarks.private import house

if TYPE_CHECKING:
    from apps.sales.models import Contract, StandingRequest
    from apps.sales.services.serving import Round

ORGANISATIONS, DEVICES = 20, 8
HOUR = 3600 * 10_000  # executions of 90,000 cycles at 900 MHz
SOLD_FOR = timedelta(days=6)
FILED_OVER = timedelta(days=2)


def main(arguments: list[str]) -> int:
    requests, releases, seed = counts("standing", __doc__ or "", arguments, requests=1000, releases=200, seed=1)
    with house():
        return _Run(requests, releases, seed).judged()


class _Run:
    """One history: who sold out the pools, who waits, what is released when."""

    def __init__(self, requests: int, releases: int, seed: int) -> None:
        from tests.cast import assemble
        from tests.sales.market import NOW, open_market

        self.dice, self.began, self.start = random.Random(seed), time.monotonic(), NOW
        self.market, self.cast = open_market(devices=DEVICES), assemble()
        self.people = [self._person(number) for number in range(ORGANISATIONS)]
        self.faults: list[str] = []
        self.rounds = 0
        contracts = self._sell_out()
        events: list[tuple[datetime, int, Any]] = []
        events += [(NOW + self.dice.random() * FILED_OVER, number, None) for number in range(requests)]
        ended = self.dice.sample(contracts, min(releases, len(contracts)))
        events += [(NOW + self.dice.random() * SOLD_FOR, -1, contract) for contract in ended]
        print(
            f"{len(contracts)} contracts sold, {len(ended)} of them are to be released, in {self.spent:.0f} s",
            flush=True,
        )
        for at, number, contract in sorted(events, key=lambda one: one[0]):
            if contract is None:
                self._file(number, at)
            else:
                self._release(contract, at)
        self._sweep(NOW + SOLD_FOR + timedelta(days=8))

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    def _person(self, number: int) -> Any:
        """An organisation with its buyer and a program, alone and as a pair, which is never cut."""
        from apps.accounts.models import Membership, Organisation
        from apps.accounts.roles import Role
        from tests.cast import person

        organisation = Organisation.objects.create(name=f"Organisation {number}", slug=f"organisation-{number}")
        user = person(f"buyer{number}")
        Membership.objects.create(user=user, organisation=organisation, role=Role.OWNER)
        return organisation, user, [self.market.program(organisation, user) for _ in range(2)]

    def _quote(self, who: Any, minutes: int, at: datetime, until: datetime, *, whole: bool) -> Any:
        from apps.sales.services import quote_create

        organisation, user, programs = who
        parts = programs if whole else programs[:1]
        lines = [(program, HOUR * minutes // 60 // len(parts) - 10) for program in parts]
        return quote_create(
            organisation=organisation,
            lines=lines,
            klass="standard",
            pool=self.market.lpu,
            window=(at, until),
            actor=user,
            now=at,
        )

    def _sell_out(self) -> list[Contract]:
        """Every device sold without a gap for the whole time, in pieces of half an hour to six hours."""
        from apps.accounts.problems import Problem
        from apps.sales.services import quote_accept

        sold, until = [], self.start + SOLD_FOR
        for minutes in (360, 240, 120, 60, 30):
            while True:
                who = self.dice.choice(self.people)
                try:
                    quote = self._quote(who, minutes, self.start, until, whole=True)
                    contract = quote_accept(quote_id=quote.pk, organisation=who[0], actor=who[1], now=self.start)
                except Problem:
                    break
                sold.append(contract)
                if minutes > 30 and len(sold) % 97 == 0:
                    break
        return sold

    def _file(self, number: int, at: datetime) -> None:
        from apps.sales.services import standing_file

        who = self.dice.choice(self.people)
        minutes = self.dice.choice([5, 10, 20, 30, 60, 120, 240, 360])
        until = at + timedelta(hours=self.dice.randint(6, 120))
        quote = self._quote(who, minutes, at, until, whole=self.dice.random() < 0.5)
        share = self.dice.choice(["0.9", "1", "1", "1.5", "2"])
        standing_file(
            quote_id=quote.pk, organisation=who[0], most=quote.worst * Decimal(share), until=until, actor=who[1], now=at
        )

    def _release(self, contract: Contract, at: datetime) -> None:
        from apps.accounts.models import User
        from apps.sales.services import contract_end

        if at >= contract.ends_at or not contract.accepted_by_id:
            return
        actor = User.objects.get(pk=contract.accepted_by_id)
        contract_end(contract_id=contract.pk, organisation=contract.organisation, actor=actor, now=at)
        self._sweep(at)

    def _sweep(self, at: datetime) -> None:
        """Serve once, watched; then look whether anybody waits who would have fitted."""
        from apps.sales.services import serving

        plain, serve, seen = serving._serve_pool, serving._serve, []

        def kept(request: Any, this: Any) -> Any:
            contract = serve(request, this)
            free = serving.free_by_device(serving.devices_of(this.pool), this.now, this.until, now=this.now)
            for claim in this.claims:
                if any(serving.intersect(parts, free[device]) != parts for device, parts in claim.kept.items()):
                    self.faults.append(f"request {request.pk} was placed on time that an older one claimed")
            return contract

        def watched(pool: Any, now: datetime) -> int:
            served, this = plain(pool, now), None
            self.rounds += 1
            rows = serving.waiting_for(pool, now=now)
            if rows:
                this = _again(serving, pool, rows, now)
                seen.append((this, rows))
            return served

        serving._serve_pool, serving._serve = watched, kept
        try:
            serving.standing_serve_all(now=at)
        finally:
            serving._serve_pool, serving._serve = plain, serve
        for this, rows in seen:
            self._look(this, rows)

    def _look(self, this: Round, rows: dict[Any, StandingRequest]) -> None:
        """After a round nobody waits for whom there is room at the price, in what is no older claim."""
        for key, found in this.reasons.items():
            if found.kind == "fits":
                self.faults.append(
                    f"request {rows[key].number} of {rows[key].organisation.slug} fits and was not served"
                )

    def judged(self) -> int:
        """Print what was found; 1 where a line does not hold."""
        from apps.sales.models import StandingRequest

        rows = list(StandingRequest.objects.select_related("contract", "organisation").order_by("filed_at"))
        states = Counter(row.state for row in rows)
        reasons = Counter(row.reason_kind for row in rows if row.state == "expired")
        print(
            f"{len(rows)} requests in {self.rounds} rounds: {dict(states)}; expired for {dict(reasons)}; {self.spent:.0f} s"
        )
        waits = sorted(row.ended_at - row.filed_at for row in rows if row.state == "served" and row.ended_at)
        if waits:
            half, most = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
            print(f"served after p50 {half.total_seconds() / 3600:.1f} h, p99 {most.total_seconds() / 3600:.1f} h")
        print(_passed(rows))
        self.faults += [*_prices(rows), *_money()]
        for fault in self.faults[:10]:
            print(f"WRONG: {fault}")
        if not self.faults:
            print("none starved, none above its price, none after its time, difference 0")
        return 1 if self.faults else 0


def _again(serving: Any, pool: Any, rows: dict[Any, Any], now: datetime) -> Any:
    """The requests that still wait, in their order, beside the free time and the claims of those before them."""
    this = serving.Round(pool, now, max(row.until for row in rows.values()))
    protected, others = serving.standing_order(pool, list(rows.values()), now=now)
    this.look()
    for number, one in enumerate([*protected, *others]):
        may_claim = number < len(protected) and len(this.claims) < serving.CLAIMS_MOST
        found = serving._prospect(rows[one.key], this, may_claim)
        if not isinstance(found, serving.NotNow):
            found = serving.NotNow("fits", "")
        this.reasons[one.key] = found
        if may_claim and found.claim is not None:
            this.claims.append(found.claim)
    return this


def _prices(rows: list[StandingRequest]) -> list[str]:
    from apps.timetable.models import Window

    found = []
    ends = {
        contract: period.upper
        for contract, period in Window.objects.order_by("period").values_list("reservation__contract_id", "period")
    }
    for row in rows:
        if row.contract is not None and row.contract.net > row.most:
            found.append(f"request {row.pk} was served above its price")
        if row.contract is not None and (
            ends[row.contract_id] > row.until or (row.ended_at or row.until) >= row.waits_until
        ):
            found.append(f"request {row.pk} was served after its time")
    return found


def _passed(rows: list[StandingRequest]) -> str:
    """How many of those filed later were served before a request, while it waited."""
    served = [(row.filed_at, row.ended_at) for row in rows if row.state == "served" and row.ended_at]
    passes = sorted(
        sum(filed > row.filed_at and ended < (row.ended_at or row.until) for filed, ended in served) for row in rows
    )
    return f"passed by later ones, where the order or its claim let them: median {passes[len(passes) // 2]}, most {passes[-1]}"


def _money() -> list[str]:
    """What is held beside contracts and requests, and every organisation's ledger."""
    from django.db.models import F, Sum

    from apps.accounts.models import Organisation
    from apps.ledger.models import Hold
    from apps.ledger.reconciling import reconcile
    from apps.sales.models import Contract, StandingRequest

    pending = Hold.objects.filter(state="pending")
    held = pending.aggregate(sum=Sum(F("amount") - F("posted")))["sum"] or Decimal(0)
    contracts = Contract.objects.filter(state="active").aggregate(sum=Sum("net"))["sum"] or Decimal(0)
    waiting = StandingRequest.objects.filter(state="waiting").aggregate(sum=Sum("most"))["sum"] or Decimal(0)
    print(f"held {held.normalize()} = contracts {contracts.normalize()} + waiting {waiting.normalize()}")
    found = [] if held == contracts + waiting else ["what is held is not what contracts and requests set aside"]
    for organisation in Organisation.objects.all():
        found += reconcile(organisation.pk).differences
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
