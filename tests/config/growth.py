"""An organisation and a platform that grow: more rows of everything that pages and lists show, made by the services.

`Growth.until(n)` makes copies of everything until there are `n`, and then one large object of each kind that has parts: a
contract with `n` lines and `n` jobs, an invoice over all of it. `rows_counted` tells which tables followed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import uuid4

from allauth.usersessions.models import UserSession
from django.apps import apps
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import models
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.utils import timezone

from apps.accounts import services as accounts
from apps.accounts.access import principal_of_user
from apps.accounts.models import Membership, Organisation
from apps.accounts.roles import Role, Scope
from apps.collection.models import StripeCheck, StripeEvent
from apps.compilation.models import CompileRequest, Program
from apps.dispatch.fleet import edits, fleet_edit
from apps.dispatch.models import Job
from apps.dispatch.services import job_create
from apps.dispatch.services.jobs import Seeded
from apps.fleet.models import Device, WorkerHost
from apps.invoicing.models import LedgerCheck, OutboxWork
from apps.invoicing.outbox import outbox_write
from apps.invoicing.services import cap_change, credit_note_issue, grant_create, invoice_issue, invoice_mark_paid
from apps.ledger.models import OutboxRow
from apps.notifications.budgets.services import budget_create
from apps.notifications.models import BudgetAlert, WebhookDelivery, WebhookEndpoint
from apps.notifications.notices.services import notice_create
from apps.notifications.webhooks.services import endpoint_create, test_message
from apps.planner.models import EvaluationRun, Task
from apps.pricing.drafts import draft_create, draft_save
from apps.registry.models import Project
from apps.registry.services import project_ensure, upload_open
from apps.reports.capacity_plans.services import capacity_plan_request
from apps.reports.changes import Change
from apps.reports.controller.services import proposals_keep
from apps.reports.costs import costrate_set
from apps.reports.demand_traces import trace_upload
from apps.reports.forecasts import forecast_run
from apps.reports.models import ForecastRun, ReconciliationRow, ReconciliationRun
from apps.reports.rerating import rerating_request
from apps.reports.whatif import what_if_request
from apps.sales.models import Commitment, Contract, QuotaNode, Quote
from apps.sales.services import quote_create, standing_file
from apps.timetable.models import Refusal
from tests.cast import Cast, person
from tests.compilation.tenancy import bare_job
from tests.dispatch.scene import Scene
from tests.planner.tenancy import a_plan, a_task
from tests.registry.tenancy import bare_version
from tests.sales.market import START, Market

OPERATIONS = 70_400_000_000_000  # of one execution, which costs 0.56 EUR
BEGAN = timedelta(hours=5)  # before now; device time passes while it grows


@dataclass
class Growth:
    """A customer, and a platform around it, with `count` copies of everything."""

    cast: Cast
    market: Market
    now: datetime = field(default_factory=lambda: timezone.now() - BEGAN)
    count: int = 0
    objects: dict[str, models.Model | None] = field(default_factory=dict)

    def until(self, count: int) -> None:
        """Grow to `count` copies of everything and parts of every large object."""
        for number in range(self.count, count):
            project = project_ensure(organisation=self.cast.organisation, name=f"Project {number}", now=START)
            self._people(number)
            self._building(project)
            self._money(number, project)
            self._platform(number)
            self._sales(number)
        self.count = count
        self._large(count)

    def _people(self, number: int) -> None:
        cast, now = self.cast, self.now
        member = person(f"member-{uuid4().hex[:8]}")
        Membership.objects.create(user=member, organisation=cast.organisation, role=Role.VIEWER)
        other = Organisation.objects.create(name=f"Customer {number}", slug=f"customer-{number}")
        Membership.objects.create(user=cast.owner, organisation=other, role=Role.VIEWER)
        accounts.invitation_create(
            organisation=cast.organisation,
            email=f"guest-{number}@example.com",
            role=Role.VIEWER,
            principal=principal_of_user(cast.owner, None),
            now=now,
        )
        token, _ = accounts.token_create(
            user=cast.owner, organisation=cast.organisation, name=f"key {number}", scopes=[Scope.READ], now=now
        )
        UserSession.objects.create(
            user=cast.owner, session_key=f"session-{number}", ip="192.0.2.1", user_agent="Browser"
        )
        amount = Decimal(10**6)
        cap_change(
            organisation=cast.organisation, amount=amount, currency="EUR", actor=cast.owner, now=now, token_id=token.pk
        )
        budget_create(
            organisation=cast.organisation, amount=amount, currency="EUR", actor=cast.owner, now=now, token_id=token.pk
        )

    def _building(self, project: Project) -> None:
        cast, now = self.cast, self.now
        job = bare_job(cast)
        job.request = CompileRequest.objects.create(
            organisation=cast.organisation, model_version=job.model_version, created_by=cast.engineer, created_at=now
        )
        job.save(update_fields=["request"])
        for reader in (cast.owner, cast.engineer, cast.billing, cast.viewer):
            notice_create(organisation=cast.organisation, user=reader, text="Compiled", path="/compiles", now=now)
        version = bare_version(cast)
        version.model.project = project
        version.model.save(update_fields=["project"])
        upload_open(organisation=cast.organisation, actor=cast.engineer, filename="net.onnx", size=100, now=now)
        a_plan(cast)
        self._evaluation()

    def _evaluation(self) -> None:
        """A task, and one more evaluation of the large one, whose candidates are all versions."""
        cast, now = self.cast, self.now
        task = self.objects.setdefault("tasks", Task.objects.get(**a_task(cast)))
        a_task(cast)
        program = self.market.program(cast.organisation, cast.engineer)
        EvaluationRun.objects.create(
            organisation=cast.organisation,
            task=task,
            program=program,
            pool=self.market.lpu,
            klass="standard",
            batch=uuid4(),
            most=1,
            state="done",
            finished_at=now,
            created_by=cast.engineer,
            created_at=now,
        )

    def _money(self, number: int, project: Project) -> None:
        cast, now, organisation = self.cast, self.now, self.cast.organisation
        cap_change(
            organisation=organisation,
            amount=Decimal(10**6),
            currency="EUR",
            actor=cast.owner,
            now=now,
            project_id=project.pk,
        )
        budget = budget_create(
            organisation=organisation,
            amount=Decimal(1000),
            currency="EUR",
            actor=cast.owner,
            now=now,
            project_id=project.pk,
        )
        BudgetAlert.objects.create(
            budget=budget, month=now.date().replace(day=1), kind="actual", percent=50, used=Decimal(500), at=now
        )
        for nominal, of in ((10**15, None), (10**9, project)):
            QuotaNode.objects.get_or_create(
                organisation=organisation, project=of, token=None, defaults={"nominal_us": nominal, "set_at": now}
            )
        grant_create(
            organisation=organisation,
            amount=Decimal("0.001"),
            currency="EUR",
            reason=f"Credit {number}",
            expires_at=None,
            idempotency_key=f"growth {number}",
            actor=cast.admin,
            now=now,
        )
        begins = now.replace(microsecond=0) - timedelta(days=40 * (number + 2))  # before the price book too
        Commitment.objects.create(
            organisation=organisation,
            kind="month",
            period=DateTimeTZRange(begins, begins + timedelta(days=30), "[)"),
            minimum=Decimal("0.01"),
            currency="EUR",
            factor=Decimal("0.9"),
            book_digest=self.market.book.digest,
            accepted_at=begins,
            accepted_by=cast.owner,
        )
        if WebhookEndpoint.objects.count() < 10:  # which is the most that there may be
            endpoint_create(
                organisation=organisation,
                url=f"https://example.com/{number}",
                topics=["invoices"],
                actor=cast.owner,
                now=now,
            )
        test_message(endpoint=WebhookEndpoint.objects.order_by("created_at").first(), now=now)  # type: ignore[arg-type]
        WebhookDelivery.objects.last().tries.create(at=now, status=500, answer="no")  # type: ignore[union-attr]
        LedgerCheck.objects.create(organisation=organisation, asked_at=now, read_at=now, finished_at=now)

    def _platform(self, number: int) -> None:
        now, market, cast = self.now, self.market, self.cast
        for pool in (market.lpu, market.lpu2, market.host):
            Device.objects.create(pool=pool, name=f"more-{number}")
            WorkerHost.objects.create(name=f"host-{number}", pool=pool, started_at=now, last_seen=now)
        Refusal.objects.create(
            organisation=cast.organisation, pool=market.lpu, klass="standard", duration_us=1, reason="full", at=now
        )
        costrate_set(
            processor_class="lpu",
            per_hour=Decimal(1),
            currency="EUR",
            effective_from=now - timedelta(hours=number + 1),
            note="",
            actor=cast.admin,
            now=now,
        )
        fleet_edit(edit=edits.devices_add("lpu-a", 1), actor=cast.admin, now=now)
        cost = {"currency": "EUR", "capital": "1", "months": 1, "watts": "1", "energy_price": "1", "pue": "1"}
        begins = (now - timedelta(hours=number + 1)).isoformat()
        fleet_edit(edit=edits.cost_set("lpu-a", {"from": begins, **cost}), actor=cast.admin, now=now)
        run = ReconciliationRun.objects.create(asked_by=cast.admin, started_at=now)
        for one in Organisation.objects.all():
            ReconciliationRow.objects.create(run=run, organisation=one, stages=[], compared_at=now)
        planned = capacity_plan_request(asked_by=cast.admin, now=now)
        facts = {"kind": "short", "devices": number + 1}
        planned.result = {"pools": [{"pool": "lpu-a", "proposals": [facts]}, {"pool": "lpu2-b", "proposals": [facts]}]}
        proposals_keep(plan=planned, now=now)
        rerating_request(book=market.book, month=now, asked_by=cast.admin, now=now)
        draft = draft_create(actor=cast.admin, now=now)
        changed = {**draft.document, "quote_validity_minutes": number + 1}
        draft_save(pk=draft.pk, document=changed, revision=draft.revision, actor=cast.admin, now=now)
        forecast = ForecastRun.objects.create(asked_by=cast.admin, asked_at=now, until=now)
        forecast_run(pk=forecast.pk, now=now)
        lines = [b"timestamp", b"2026-03-02T10:00:00Z"]
        trace_upload(name=f"trace-{number}", size=1, lines=lines, actor=cast.admin, now=now)
        what_if_request(change=Change(), trace=None, asked_by=cast.admin, now=now)
        StripeEvent.objects.create(
            id=f"evt_growth_{number}", type="invoice.paid", created=now, received_at=now, payload={}, error="no"
        )
        StripeCheck.objects.create(at=now, rows=[], differences=[])
        outbox_write(organisation_id=cast.organisation.pk, topic="growth", payload={}, now=now)
        row = OutboxRow.objects.order_by("-id").first()
        OutboxWork.objects.create(row=row, handler="mail", next_at=now, created_at=now, dead_at=now, error="no")  # type: ignore[misc]

    def _sales(self, number: int) -> None:
        """A quote that is open, and a contract with a job that is done and one that waits; invoiced, paid, credited."""
        scene, program = self._scene()
        quote = quote_create(
            organisation=self.cast.organisation,
            lines=[(program, 100)],
            klass="standard",
            pool=self.market.lpu,
            window=(self.now, self.now + timedelta(days=1)),
            actor=self.cast.engineer,
            now=self.now,
        )
        self.objects["standing"] = standing_file(
            quote_id=quote.pk,
            organisation=self.cast.organisation,
            most=quote.worst,
            actor=self.cast.engineer,
            now=self.now,
        )
        contract = scene.contract((program, 1000))
        scene.run(scene.job(contract, 2))
        self.now = scene.now
        invoice = invoice_issue(organisation=self.cast.organisation, actor=self.cast.billing, now=self.now)
        if invoice.open:
            invoice_mark_paid(
                invoice_id=invoice.pk,
                amount=invoice.open,
                reference=f"growth {number}",
                actor=self.cast.admin,
                now=self.now,
            )
        credit_note_issue(invoice_id=invoice.pk, reason="wrong", actor=self.cast.admin, now=self.now)
        scene.job(contract, 1)

    def _scene(self) -> tuple[Scene, Program]:
        scene = Scene(self.market, self.cast, self.now)
        return scene, scene.program(operations=OPERATIONS)

    def _large(self, count: int) -> None:
        """One contract with `count` lines and as many jobs, all of them on one invoice; then as many that are on none. The
        first job has `count` blocks."""
        scene, _ = self._scene()
        programs = [scene.program(operations=OPERATIONS) for _ in range(count)]
        contract = scene.contract(*((program, 1000) for program in programs))
        default_storage.save(programs[0].model_version.storage_key, ContentFile(b"abc"))
        jobs = [self._job(scene, contract, program, 2 if number else count) for number, program in enumerate(programs)]
        invoice = invoice_issue(organisation=self.cast.organisation, actor=self.cast.billing, now=self.now)
        for program in programs:
            self._job(scene, contract, program, 1)
        self.objects |= {
            "contracts": contract,
            "jobs": jobs[0],
            "invoices": invoice,
            "versions": programs[0].model_version,
            "quotes": Quote.objects.get(pk=contract.quote_id),
            "models": programs[0].model_version.model,
            "customers": self.cast.organisation,
            "commitments": Commitment.objects.order_by("accepted_at").last(),
            "webhooks": WebhookEndpoint.objects.order_by("created_at").first(),
            "reconciliations": ReconciliationRun.objects.order_by("started_at", "id").last(),
        }

    def _job(self, scene: Scene, contract: Contract, program: Program, items: int) -> Job:
        job = job_create(
            contract=contract, arrays=Seeded(items), actor=self.cast.engineer, now=scene.now, wanted=program.pk
        )
        scene.run(job)
        self.now = scene.now
        return job


def rows_counted() -> dict[str, int]:
    """How many rows each table of the product has, by the name of its model."""
    return {
        model._meta.label: model._default_manager.count()
        for model in apps.get_models()
        if model.__module__.startswith("apps.")
    }
