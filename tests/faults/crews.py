"""The same works, done by a real Celery worker whose process is killed at a fail point; its parent starts another."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from celery import current_app
from django.utils import timezone

from apps.dispatch import services
from apps.dispatch.services.leases import SILENT_AFTER
from tests.faults.works import Works, customer_pays, differences, events_new, signed
from tests.workers import Crew

ROUNDS = 12
TASK_SECONDS = 120
ERRANDS = "tests.faults.errands"
TURN = (  # what the scheduler asks for, in the order in which money goes on
    "apps.dispatch.tasks.offer_due",
    "apps.dispatch.tasks.sweep",
    "apps.sales.tasks.contracts_close",
    "apps.invoicing.tasks.outbox_deliver",
    "apps.invoicing.tasks.outbox_mail",
    "apps.invoicing.tasks.outbox_stripe",
)
RARELY = "apps.collection.tasks.stripe_tend"


@dataclass
class Crewed:
    """One worker for every queue; the works' clock is the real one, and jobs are such that their time has come."""

    works: Works
    crew: Crew
    settings: dict[str, str]
    worker: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        queues = ("default", "dispatch", "mail", "stripe", self.works.scene.market.lpu.queue)
        self.worker = self.crew.start(*queues, environment=self.settings, include=ERRANDS)

    def survive(self, point: str, marker: Path) -> list[str]:
        """Kill the worker's process at `point` amid one more job, let everything go on; what is not equal then.

        Armed before the job is there: its leases are offered at once, and a worker with nothing else to do has run both
        before another message reaches it.
        """
        for task, kwargs in (("done", {}), ("arm", {"point": point, "marker": str(marker)})):  # done: of the last point
            current_app.send_task(f"{ERRANDS}.{task}", kwargs=kwargs).get(timeout=TASK_SECONDS)
        self.works.begin()
        for number in range(ROUNDS):
            self._turn(is_later=number > 0)
            left = differences(self.works)
            if marker.exists() and not left:
                return []
            time.sleep(0.05)
        return left if marker.exists() else [f"nothing passes {point}"]

    def _turn(self, *, is_later: bool) -> None:
        """Everything that is periodic, once; a worker's silence is noticed without waiting for it."""
        if is_later:
            services.leases_reoffer_silent(now=timezone.now() + SILENT_AFTER + timedelta(seconds=1))
        organisation = str(self.works.scene.cast.organisation.pk)
        for name in TURN:
            current_app.send_task(name, queue="default")
        if is_later:
            current_app.send_task(RARELY, queue="default")
        current_app.send_task(f"{ERRANDS}.issue", kwargs={"organisation_id": organisation}, queue="default")
        customer_pays()
        for event in events_new():
            body, signature = signed(event)
            told = {"body": body.decode(), "signature": signature}
            for _ in range(2):
                current_app.send_task(f"{ERRANDS}.deliver", kwargs=told, queue="default")
        current_app.send_task(f"{ERRANDS}.done", queue="default").get(timeout=TASK_SECONDS)
