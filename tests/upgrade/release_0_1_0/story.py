"""What happened at the customer of release 0.1.0, by that release's own services; see make.py."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from things import PROFILE, choosing_model, computed, feeds_of, packed, pictures

BEGIN = datetime(2026, 9, 15, 8, 30, tzinfo=UTC)
PRESENT = datetime(2026, 11, 20, 10, 30, tzinfo=UTC)
MODELS = ("digits-small", "digits-batch")


class Story:
    """Three months, in the order in which they happened."""

    def __init__(self) -> None:
        from tests.cast import assemble
        from tests.dispatch.scene import Scene
        from tests.sales.market import open_market

        self.scene = Scene(open_market(devices=2, change=self._book), assemble(), now=BEGIN)
        self.cast = self.scene.cast
        self.facts: dict[str, Any] = {"present": PRESENT.isoformat(), "open": {}, "outputs": {}}

    @staticmethod
    def _book(document: dict[str, Any]) -> None:
        """The shipped book with every class on offer, at prices that make small models worth reading about."""
        document["classes"]["guaranteed"]["offered"] = True
        document["classes"]["hourly"] = {**document["classes"]["standard"], "title": "Hourly", "time_of_use": True}
        document["tariff"]["periods"][1]["factor"] = "0.6"
        for by_precision in document["prices"].values():
            for precision in by_precision:
                by_precision[precision] = "31415926.535"
        document["minimum_charge"] = "0.25"
        document["free_tera_operations"] = "0.000000001"

    def tell(self) -> None:
        """Everything, from the sign-up to the present."""
        self._people()
        self._programs()
        self._september()
        self._october()
        self._november()
        self._card()
        self._words()

    # People and models

    def _people(self) -> None:
        from apps.accounts.access import Principal
        from apps.accounts.roles import Role, Scope
        from apps.accounts.services import invitation_create, token_create
        from apps.invoicing.services import cap_change, profile_set
        from apps.notifications.budgets.services import budget_create
        from apps.notifications.webhooks.services import endpoint_create, endpoint_switch

        of, owner, now = self.cast.organisation, self.cast.owner, BEGIN
        self.token, _ = token_create(user=owner, organisation=of, name="ci", scopes=[Scope.READ, Scope.RUN], now=now)
        principal = Principal(user=owner, memberships={of.pk: Role.OWNER}, current=of.pk)
        invitation_create(organisation=of, email="new@example.com", role=Role.VIEWER, principal=principal, now=now)
        profile_set(organisation=of, actor=self.cast.billing, now=now, **PROFILE)
        cap_change(organisation=of, amount=Decimal(10**9), currency="EUR", actor=owner, now=now)
        budget_create(organisation=of, amount=Decimal("0.5"), currency="EUR", actor=owner, now=now)
        budget_create(organisation=of, amount=Decimal(5), currency="EUR", actor=owner, now=now, token_id=self.token.pk)
        for path, topics in (("all", ["usage", "invoices", "budgets", "contracts"]), ("off", ["payments"])):
            hook = endpoint_create(
                organisation=of, url=f"https://example.com/hooks/{path}", topics=topics, actor=owner, now=now
            )
        endpoint_switch(endpoint=hook, active=False, actor=owner, now=now)

    def _programs(self) -> None:
        from apps.compilation.services import processor_add
        from apps.dispatch import measurement
        from apps.registry.services import evaluation_record
        from tests.dispatch.real import ROOT, processors_align
        from tests.registry.helpers import version_of

        processors_align(self.scene)
        versions = {
            name: version_of(self.cast, (ROOT / "samples" / f"{name}.onnx").read_bytes(), name) for name in MODELS
        }
        versions["choosing"] = version_of(self.cast, choosing_model(), "choosing")
        document = json.loads((ROOT / "samples" / "digits-small.evaluation.json").read_text())
        evaluation_record(version=versions["digits-small"], document=document, actor=self.cast.engineer, now=BEGIN)
        own = (ROOT / "compiler" / "targets" / "lpu.toml").read_text().replace('name = "lpu"', 'name = "mylpu"', 1)
        processor_add(organisation=self.cast.organisation, data=own.encode(), actor=self.cast.engineer, now=BEGIN)
        wanted = (
            ("exact", "digits-small", "lpu", "float32", {}),
            ("small", "digits-small", "lpu", "int8", {}),
            ("half", "digits-small", "lpu2", "float16", {}),
            ("bounded", "choosing", "lpu", "float32", {}),
            ("batch", "digits-batch", "lpu", "float32", {"batch": [1, 4]}),
            ("own", "choosing", "mylpu", "float32", {}),
        )
        self.programs: dict[str, Any] = {}
        for name, model, target, precision, dims in wanted:
            found = self._compiled(versions[model], target, precision, dims, actor=self.cast.engineer)
            self.programs[name] = found[0]
            self.facts["outputs"] |= {program.digest: computed(program) for program in found}
        measurement.host_measure(program_id=self.programs["exact"].pk, pool_slug="host-cpu", now=BEGIN)

    @staticmethod
    def _compiled(
        version: Any, target: str, precision: str = "float32", dims: dict[str, Any] | None = None, *, actor: Any
    ) -> list[Any]:
        from apps.compilation.services import job_create, job_run

        examples = None if precision == "float32" else packed(image=pictures(4))
        job = job_create(
            version=version, target=target, actor=actor, now=BEGIN, precision=precision, dims=dims, calibration=examples
        )
        job_run(job_id=job.pk, clock=lambda: BEGIN)
        job.refresh_from_db()
        assert job.state == job.State.DONE, job.error
        return list(job.programs.select_related("model_version__model").order_by("digest"))

    # Buying and running

    def _sell(self, *lines: Any, klass: str = "standard", hours: float = 4, pool: Any = None, **more: Any) -> Any:
        from apps.sales.services import Quota, QuoteLine, quote_accept, quote_create

        start = more.pop("start", self.scene.now)
        asked = lines[0] if isinstance(lines[0], Quota) else [QuoteLine(self.programs[a], b) for a, b in lines]
        quote = quote_create(
            organisation=self.cast.organisation,
            lines=asked,
            klass=klass,
            pool=pool or self.scene.market.lpu,
            window=(start, start + timedelta(hours=hours)),
            actor=self.cast.engineer,
            now=self.scene.now,
            **more,
        )
        return quote_accept(
            quote_id=quote.pk, organisation=self.cast.organisation, actor=self.cast.owner, now=self.scene.now
        )

    def _run(self, contract: Any, which: Any, items: int, *, clock: Any = None) -> None:
        from apps.dispatch import services as dispatch
        from apps.dispatch.execution import lease_execute
        from apps.dispatch.models import JobState, Lease

        job = self._submit(contract, which, items)
        while lease := Lease.objects.filter(stage__job=job, state__in=["planned", "offered"]).first():
            at = max(clock or self.scene.now, lease.device_from)
            dispatch.leases_offer_due(now=at)
            lease.refresh_from_db()
            assert lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=lambda: at)  # noqa: B023
        dispatch.job_advance(job_id=job.pk, now=self.scene.now)
        job.refresh_from_db()
        assert job.state == JobState.DONE, job.problem

    def _submit(self, contract: Any, which: Any, items: int) -> Any:
        from apps.dispatch import services as dispatch

        program = self.programs[which] if isinstance(which, str) else which
        return dispatch.job_create(
            contract=contract,
            arrays=feeds_of(program, items),
            actor=None,
            now=self.scene.now,
            wanted=program.pk,
            token_id=self.token.pk if isinstance(which, str) else None,
        )

    def _missed(self, contract: Any, name: str) -> None:
        """Five workers in turn take a block and fall silent: missed, and credited."""
        from apps.dispatch import services as dispatch
        from apps.dispatch.models import Lease, LeaseState

        lease = Lease.objects.get(stage__job=self._submit(contract, name, 7))
        at = max(self.scene.now, lease.device_from)
        while lease.state != LeaseState.FAILED:
            dispatch.leases_offer_due(now=at)
            lease.refresh_from_db()
            dispatch.lease_take(lease_id=lease.pk, epoch=lease.epoch, host="gone", now=at)
            at += timedelta(minutes=1)
            assert dispatch.leases_reoffer_silent(now=at) == 1
            lease.refresh_from_db()

    def _month(self, contracts: dict[str, Any]) -> None:
        """Some of each: all of the batch contract, half of the others, part of the priority one too late."""
        self._run(contracts["standard"], "exact", 12)
        self._run(contracts["batch"], "small", 16)
        self._run(contracts["bounded"], "bounded", 5)
        self._run(contracts["measured"], "bounded", 6)
        self._run(contracts["priority"], "exact", 6)
        self._run(contracts["priority"], "exact", 3, clock=self.scene.now + timedelta(hours=3))
        self._run(contracts["quota"], "small", 5)
        self._run(contracts["hourly"], "exact", 4)
        self._run(contracts["spread"], "exact", 3)

    def _buy(self, days: int) -> dict[str, Any]:
        """One contract of every form and class."""
        from apps.sales.models import FormName
        from apps.sales.services import Quota
        from apps.sales.volumes import Form

        hours = 24.0 * days
        at = self.scene.now + timedelta(hours=1)
        return {
            "standard": self._sell(("exact", 40), hours=hours),
            "batch": self._sell(("small", 16 if days < 2 else 40), klass="batch", hours=hours),
            "bounded": self._sell(("bounded", 30), hours=hours),
            "measured": self._sell(("bounded", 30), hours=hours, measured=True),
            "priority": self._sell(("exact", 30), klass="priority", hours=hours, pool=self.scene.market.host),
            "off_peak": self._sell(("batch", 20), klass="off_peak", hours=48),
            "hourly": self._sell(("exact", 20), klass="hourly", hours=hours),
            "quota": self._sell(Quota("int8", 1), hours=hours),
            "spread": self._sell(
                ("exact", 20 * max(days, 1)), hours=24 * max(days, 1), form=Form(FormName.SPREAD, Fraction(86_400))
            ),
            "interval": self._sell(
                ("exact", 2), klass="guaranteed", start=at, hours=0.01, form=Form(FormName.INTERVAL, Fraction(1))
            ),
        }

    def _close(self, contracts: dict[str, Any], *, at: datetime) -> None:
        from apps.sales.services import contract_close, contract_end

        for contract in contracts.values():
            contract_close(contract_id=contract.pk, now=at)
            contract.refresh_from_db()
            if contract.state == "active":
                contract_end(
                    contract_id=contract.pk, organisation=self.cast.organisation, actor=self.cast.owner, now=at
                )

    # The months

    def _september(self) -> None:
        from apps.invoicing.services import credit_note_issue, grant_create, guarantees_credit_due, invoice_mark_paid

        contracts = self._buy(1)
        self._month(contracts)
        self._missed(contracts["quota"], "small")
        self._close(contracts, at=BEGIN + timedelta(days=3))
        guarantees_credit_due(now=BEGIN + timedelta(days=3))
        grant_create(
            organisation=self.cast.organisation,
            amount=Decimal("0.05"),
            currency="EUR",
            reason="Welcome",
            expires_at=BEGIN + timedelta(days=400),
            idempotency_key="welcome",
            actor=self.cast.admin,
            now=BEGIN,
        )
        invoice = self._invoices(datetime(2026, 10, 1, 2, tzinfo=UTC))
        first, at = invoice.open / 2, datetime(2026, 10, 5, 9, tzinfo=UTC)
        first = first.quantize(Decimal("0.01"))
        for number, amount in enumerate((first, invoice.open - first + 3)):
            invoice_mark_paid(
                invoice_id=invoice.pk, amount=amount, reference=f"transfer {number}", actor=self.cast.admin, now=at
            )
        credit_note_issue(
            invoice_id=invoice.pk,
            parts={1: Decimal("0.01")},
            reason="Agreed by telephone",
            actor=self.cast.admin,
            now=at,
        )

    def _october(self) -> None:
        from apps.invoicing.services import dunning_run, grant_create, grant_end, invoice_issue, invoice_void
        from apps.pricing.services import pricebook_publish
        from apps.sales.services import commitment_enter
        from tests.pricing.rating.books import document

        def second(d: dict[str, Any]) -> None:
            self._book(d)
            d["version"] = 2
            d["prices"]["lpu"]["float32"] = "27182818.284"

        pricebook_publish(
            document=document(second),
            effective_from=datetime(2026, 11, 10, tzinfo=UTC),
            now=datetime(2026, 10, 5, tzinfo=UTC),
            actor=self.cast.admin,
        )
        self.scene.now = datetime(2026, 10, 13, 7, tzinfo=UTC)
        commitment_enter(
            organisation=self.cast.organisation,
            kind="year",
            minimum=Decimal(2),
            actor=self.cast.owner,
            now=self.scene.now,
        )
        contracts = self._buy(2)
        self._month(contracts)
        at = self.scene.now + timedelta(days=4)
        self._amended(contracts)
        self._close(contracts, at=at)
        invoice = invoice_issue(organisation=self.cast.organisation, actor=self.cast.billing, now=at)
        invoice_void(invoice_id=invoice.pk, reason="Wrong address", actor=self.cast.admin, now=at + timedelta(hours=1))
        extra = grant_create(
            organisation=self.cast.organisation,
            amount=Decimal(1),
            currency="EUR",
            reason="By mistake",
            expires_at=None,
            idempotency_key="mistake",
            actor=self.cast.admin,
            now=at,
        )
        grant_end(grant_id=extra.pk, reason="Granted by mistake", actor=self.cast.admin, now=at)
        self._invoices(datetime(2026, 11, 1, 2, tzinfo=UTC))
        dunning_run(now=datetime(2026, 11, 19, tzinfo=UTC))

    def _amended(self, contracts: dict[str, Any]) -> None:
        """The standard contract becomes a larger one in the batch class."""
        contracts["amended"] = self._sell(("exact", 60), klass="batch", hours=40, amends=contracts["standard"])
        del contracts["standard"]

    def _november(self) -> None:
        """Contracts of every form that are open at the present; some of each is used and not invoiced yet."""
        from apps.sales.services import QuoteLine, quote_create

        self.scene.now = PRESENT - timedelta(days=1)
        contracts = self._buy(6)
        self._month(contracts)
        for name, contract in contracts.items():
            self.facts["open"][name] = str(contract.pk)
        quote = quote_create(
            organisation=self.cast.organisation,
            lines=[QuoteLine(self.programs["exact"], 100)],
            klass="standard",
            pool=self.scene.market.lpu,
            window=(PRESENT, PRESENT + timedelta(days=3)),
            actor=self.cast.engineer,
            now=PRESENT - timedelta(hours=1),
        )
        self.facts["quote"] = str(quote.pk)
        self._submit(contracts["standard"], "exact", 5)  # a job that waits for its lease when the upgrade comes

    def _invoices(self, at: datetime) -> Any:
        from apps.invoicing.models import Invoice
        from apps.invoicing.services import invoices_issue_month

        assert invoices_issue_month(now=at) >= 1
        return Invoice.objects.filter(organisation=self.cast.organisation).order_by("-issued_at").first()

    def _card(self) -> None:
        """Another organisation, whose invoices Stripe collects: one paid by card, one open there."""
        from django.conf import settings
        from django.utils import timezone

        from apps.collection.customers import client_of_settings
        from apps.collection.events import events_catch_up
        from apps.collection.push import push_due
        from apps.invoicing.services import invoice_issue
        from apps.sales.services import QuoteLine, quote_accept, quote_create
        from tests.registry.helpers import version_of
        from tests.stripe.double.server import running
        from tests.stripe.double.store import Store
        from tests.stripe.sold import pay

        cast = replace(self.cast, organisation=self.cast.stranger_organisation, engineer=self.cast.stranger)
        program = self._compiled(version_of(cast, choosing_model(), "choosing"), "lpu", actor=cast.stranger)[0]
        self.scene.now = timezone.now() - timedelta(hours=2)  # the double has a clock of its own
        asked: dict[str, Any] = {"organisation": cast.organisation, "actor": cast.stranger, "now": self.scene.now}
        with running(Store()) as url:
            settings.STRIPE_API_KEY, settings.STRIPE_API_BASE = "sk_test_double", str(url)
            settings.STRIPE_WEBHOOK_SECRET = "whsec_double"
            client = client_of_settings()
            for is_paid in (True, False):
                quote = quote_create(
                    lines=[QuoteLine(program, 20)], klass="standard", pool=self.scene.market.lpu, **asked
                )
                self._run(quote_accept(quote_id=quote.pk, **asked), program, 20)
                now = timezone.now()
                invoice = invoice_issue(organisation=cast.organisation, actor=cast.stranger, now=now)
                push_due(client=client, now=now)
                if is_paid:
                    pay(client, invoice.stripe_push)
                events_catch_up(client=client, now=now)
        settings.STRIPE_API_KEY = ""

    def _words(self) -> None:
        from apps.invoicing.outbox import handlers_known, outbox_deliver
        from apps.reports.reconciling import reconciliation_request, reconciliation_run

        outbox_deliver(now=PRESENT, handlers=[one for one in handlers_known() if not one.remote])
        asked = reconciliation_request(asked_by=self.cast.admin, now=PRESENT)
        reconciliation_run(run_id=asked.pk, now=PRESENT)
