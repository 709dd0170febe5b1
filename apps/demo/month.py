"""Creates a month of past sample data for the demo organisation, by calling the product's own services with past times.

The month is a list of steps in chronological order. Each step is one transaction, so an interrupted run can be
continued. All times depend on the stored end of the sample data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from fractions import Fraction

import structlog
from django.conf import settings
from django.db.models import QuerySet

from apps.accounts.demo import ORGANISATION
from apps.accounts.files import file_transaction
from apps.accounts.models import Organisation, User
from apps.accounts.roles import Role
from apps.accounts.services import organisation_sample_mark
from apps.compilation.models import Program
from apps.compilation.services import job_create, job_run
from apps.demo.deals import DAY, HOUR, LENGTH, Deal, deals
from apps.demo.models import SampleStep
from apps.demo.shapes import Piece, midnight, pieces
from apps.demo.visitors import visitor_make
from apps.dispatch import contracts
from apps.dispatch.services import SampleOrder, sample_jobs_run
from apps.fleet.models import Pool
from apps.invoicing.models import Invoice, InvoiceState
from apps.invoicing.services import cap_change, credit_note_issue, invoice_issue, invoice_mark_paid
from apps.ledger.models import Transaction, UsageRow
from apps.ledger.selectors import month_of, spending_of_all
from apps.notifications.budgets.services import budget_create
from apps.pricing.selectors import book_in_force
from apps.registry.selectors import versions_present
from apps.sales.models import Contract, Quote
from apps.sales.services import QuoteLine, contract_close, quote_accept, quote_create
from apps.timetable.selectors import windows_of

CAP = Decimal(4000)
BATCHES = [1, 8, 64, 256, 1024]
TARGETS = ("lpu", "lpu2")
MINUTE = timedelta(minutes=1)
BUDGET_USED = Decimal("0.87")

log = structlog.get_logger("demo")


@dataclass(frozen=True)
class Step:
    """A step of the month. `act` is called with the time `at`."""

    at: datetime
    name: str
    act: Callable[[datetime], object]


@dataclass
class Month:
    """An organisation's month of sample data. The month ends at `until`."""

    organisation: Organisation
    until: datetime
    people: dict[Role, User] = field(default_factory=dict)

    def steps(self) -> list[Step]:
        """Return all steps in chronological order."""
        start = self.midnight - LENGTH
        found = [
            Step(start, "cap", self._cap),
            *[
                Step(start + number * HOUR, f"compile {model} for {target}", self._compiler(model, target))
                for number, (model, target) in enumerate(self._compiles(), 1)
            ],
            *self._trades(),
            *[Step(self._end(day), f"run {day:%Y-%m-%d}", self._runner(day)) for day in self._days(start)],
            *self._papers(),
            Step(self.until - MINUTE, "budget", self._budget),
            Step(self.until - MINUTE, "visitor", self._visitor),
        ]
        return sorted((one for one in found if one.at < self.until), key=lambda one: one.at)

    @property
    def midnight(self) -> datetime:
        """The start of the last day (UTC)."""
        return midnight(self.until)

    def person(self, role: Role) -> User:
        """Return the first member who joined with this role."""
        if role not in self.people:
            of_role = self.organisation.memberships.filter(role=role).select_related("user")
            self.people[role] = of_role.order_by("created_at", "id")[0].user
        return self.people[role]

    # Setting up

    def _cap(self, now: datetime) -> None:
        currency = book_in_force(at=now).currency
        owner = self.person(Role.OWNER)
        cap_change(organisation=self.organisation, amount=CAP, currency=currency, actor=owner, now=now)

    def _compiles(self) -> list[tuple[str, str]]:
        models = dict.fromkeys(deal.model for deal in self._deals())
        return [(model, target) for model in models for target in TARGETS]

    def _compiler(self, model: str, target: str) -> Callable[[datetime], None]:
        # The whole compilation is one transaction, so no worker sees an unfinished compilation.
        def act(now: datetime) -> None:
            version = versions_present().get(organisation=self.organisation, model__name=model, number=1)
            dims = {row["name"]: BATCHES for row in version.symbolic_dims}
            job = job_create(version=version, target=target, dims=dims, actor=self.person(Role.ENGINEER), now=now)
            job_run(job_id=job.pk, clock=lambda: now)
            job.refresh_from_db()
            if job.state != job.State.DONE:
                raise RuntimeError(f"{model} for {target}: {job.error}")

        return act

    # Buying and running

    def _deals(self) -> list[Deal]:
        return deals(now=self.until, midnight=self.midnight)

    def _trades(self) -> list[Step]:
        return [Step(self.midnight + deal.accepted, f"buy {deal.name}", self._buyer(deal)) for deal in self._deals()]

    def _buyer(self, deal: Deal) -> Callable[[datetime], None]:
        def act(now: datetime) -> None:
            quote = self._quote(deal, now - 20 * MINUTE)
            quote_accept(quote_id=quote.pk, organisation=self.organisation, actor=self.person(Role.OWNER), now=now)

        return act

    def _quote(self, deal: Deal, now: datetime) -> Quote:
        window = self.midnight + deal.starts, self.midnight + deal.ends
        program, pool = self._program(deal), Pool.objects.get(slug=deal.pool)
        parts = max(1, (window[1] - window[0]) // DAY) if deal.form.every else 1
        volume = deal.volume(Fraction(program.interval_cycles, pool.clock_at(program.clock_hz)), parts)
        return quote_create(
            organisation=self.organisation,
            lines=deal.quota or [QuoteLine(program, volume)],
            klass=deal.klass,
            pool=pool,
            window=window,
            form=deal.form,
            name=deal.name,
            actor=self.person(Role.ENGINEER),
            now=now,
        )

    def _program(self, deal: Deal) -> Program:
        target = Pool.objects.values_list("processor__name", flat=True).get(slug=deal.pool)
        made = Program.objects.filter(
            organisation=self.organisation, model_version__model__name=deal.model, target=target
        )
        dims = {"batch": deal.batch} if deal.model == "digits-batch" else {}
        return made.filter(dims=dims).select_related("model_version__model").order_by("created_at", "id")[0]

    def _end(self, day: datetime) -> datetime:
        return min(day + DAY, self.until) - MINUTE

    def _days(self, start: datetime) -> Iterator[datetime]:
        day = start
        while day <= self.until:
            yield day
            day += DAY

    def _runner(self, day: datetime) -> Callable[[datetime], None]:
        def act(now: datetime) -> None:
            begun = [deal for deal in self._deals() if self.midnight + deal.accepted < day + DAY]
            held = {deal: self._contract(deal) for deal in begun if self.midnight + deal.accepted <= self.until}
            orders = [order for deal, contract in held.items() for order in self._orders(deal, contract, day)]
            if orders:
                sample_jobs_run(orders)
            for contract in held.values():
                contract_close(contract_id=contract.pk, now=now)

        return act

    def _contract(self, deal: Deal) -> Contract:
        at = self.midnight + deal.accepted
        contracts_of = Contract.objects.select_related("organisation", "pool__processor")
        return contracts_of.get(organisation=self.organisation, accepted_at=at, klass=deal.klass)

    def _orders(self, deal: Deal, contract: Contract, day: datetime) -> list[SampleOrder]:
        if contract.closed_at is not None:
            return []
        program = self._program(deal)
        engineer, each = self.person(Role.ENGINEER), contracts.pace_of(contract, program).each
        if deal.quota is not None:
            found = self._quota_pieces(day, each, since=contract.accepted_at)
            return [SampleOrder(contract, program, one.executions, engineer, one.at) for one in found]
        line = contract.lines.get()
        windows = [(window.start, window.end) for window in windows_of(contract.pk)]
        cut = pieces(windows, volume=line.executions or 0, each=each, week=deal.week, seed=f"{deal.name} {day:%j}")
        due = [one for one in cut if day <= one.at < day + DAY and one.at < self.until]
        return [SampleOrder(contract, program, one.executions, engineer, one.at - MINUTE) for one in due]

    def _quota_pieces(self, day: datetime, each: Fraction, *, since: datetime) -> list[Piece]:
        # Every third evening has one job of twenty minutes of device time.
        at = day + 22 * HOUR + 20 * MINUTE
        is_due = (day - midnight(since)).days % 3 == 0 and since < at < self.midnight - DAY
        return [Piece(at, int(20 * 60 / each))] if is_due else []

    # Papers

    def _papers(self) -> list[Step]:
        # There are three invoices. The second covers the previous calendar month. The third is unpaid and partly
        # credited.
        asked = self.midnight - 18 * DAY + 10 * MINUTE
        last = self.midnight - 5 * DAY + 10 * MINUTE
        first = month_of(self.midnight)[0]
        found = [
            Step(asked, "invoice asked for", self._invoicer),
            Step(asked + 7 * DAY, "pay", self._payer),
            Step(first + 20 * MINUTE, "invoice of the month before", self._month_invoicer),
            Step(first + 6 * DAY, "pay the month before", self._payer),
            Step(last, "last invoice", self._invoicer),
            Step(last + 2 * DAY + 9 * HOUR, "credit note", self._crediter),
        ]
        return [one for one in found if self.midnight - LENGTH < one.at]

    def _invoicer(self, now: datetime) -> None:
        if UsageRow.objects.filter(organisation=self.organisation, created_at__lt=now, invoiced__isnull=True).exists():
            invoice_issue(organisation=self.organisation, actor=self.person(Role.BILLING), now=now)

    def _month_invoicer(self, now: datetime) -> None:
        until = month_of(now)[0]
        if UsageRow.objects.filter(
            organisation=self.organisation, created_at__lt=until, invoiced__isnull=True
        ).exists():
            invoice_issue(organisation=self.organisation, until=until, actor=None, now=now, carry=True)

    def _payer(self, now: datetime) -> None:
        before = self.midnight - 6 * DAY
        for invoice in self._open_invoices().filter(issued_at__lt=min(now, before)):
            invoice_mark_paid(
                invoice_id=invoice.pk,
                amount=invoice.open,
                reference=f"Transfer for {invoice.number}",
                actor=None,
                now=now,
            )

    def _crediter(self, now: datetime) -> None:
        invoice = self._open_invoices().filter(issued_at__lt=now).order_by("-issued_at").first()
        if invoice is None:
            return
        line = invoice.lines.order_by("-share")[0]
        part = (line.share * Decimal("0.05")).quantize(Decimal("0.01"))
        if part:
            reason = "Goodwill: results of one night arrived after the morning shift began."
            credit_note_issue(invoice_id=invoice.pk, parts={line.number: part}, reason=reason, actor=None, now=now)

    def _open_invoices(self) -> QuerySet[Invoice]:
        return Invoice.objects.filter(organisation=self.organisation, state=InvoiceState.ISSUED)

    def _budget(self, now: datetime) -> None:
        currency = book_in_force(at=now).currency
        used = spending_of_all(organisation_id=self.organisation.pk, first=currency, now=now)[0].used
        amount = max(Decimal(50), (used / BUDGET_USED).quantize(Decimal(10), rounding=ROUND_UP))
        owner = self.person(Role.OWNER)
        budget_create(organisation=self.organisation, amount=amount, currency=currency, actor=owner, now=now)

    def _visitor(self, now: datetime) -> None:
        visitor_make(organisation=self.organisation, now=now)


def month_due(organisation: Organisation) -> bool:
    """Whether sample data is switched on but not complete. Always False for an organisation with real transactions."""
    if not settings.DEMO_MONTH:
        return False
    if organisation.sample_until is None:
        return not Transaction.objects.filter(organisation=organisation).exists()
    return bool(_steps_left(organisation, organisation.sample_until))


def demo_organisation() -> Organisation | None:
    """Return the organisation that the sample data belongs to; None before `seed_demo` has made it."""
    return Organisation.objects.filter(name=ORGANISATION).order_by("created_at").first()


def visit_awaited() -> bool:
    """Whether visits are switched on and the sample data for them is still being made."""
    if not settings.DEMO_VISITORS or not settings.DEMO_MONTH:
        return False
    organisation = demo_organisation()
    return organisation is not None and month_due(organisation)


def month_make(*, organisation: Organisation, now: datetime) -> int:
    """Run every remaining step and return the number of steps. Can be repeated safely."""
    until = organisation_sample_mark(organisation=organisation, until=now.replace(second=0, microsecond=0))
    organisation.refresh_from_db()
    steps = _steps_left(organisation, until)
    for step in steps:
        with file_transaction():
            SampleStep.objects.create(organisation=organisation, name=step.name, at=step.at)
            step.act(step.at)
        log.info("sample data", step=step.name)
    return len(steps)


def _steps_left(organisation: Organisation, until: datetime) -> list[Step]:
    done = set(SampleStep.objects.filter(organisation=organisation).values_list("name", flat=True))
    return [step for step in Month(organisation, until).steps() if step.name not in done]
