"""Every order of one lost answer: which call of a push it is, how it is lost, what an administrator then does, and when the
scheduler's turns come in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatch
from itertools import permutations, product

from django.test import override_settings

from apps.collection.push import push_retry
from apps.invoicing.models import Invoice
from apps.invoicing.services import credit_note_issue, invoice_mark_paid, invoice_void, invoice_write_off
from apps.sales.models import Contract
from tests.cast import Cast
from tests.stripe.histories import SETTINGS, History, undone, wrong

CALLS = ("/v1/customers", "/v1/invoices", "/v1/invoiceitems", "/v1/invoices/*/finalize", "/v1/invoices/*/pay")
LOSSES = ("timeout-after", "500-after", "died-after", "timeout", "500")
CHANGES = ("void", "note", "write-off", "transfer", "retry")
PAUSES = (timedelta(minutes=2), timedelta(hours=25))  # the key is still remembered, or forgotten
TURNS = ("bring", "tell", "list")


@dataclass(frozen=True)
class Order:
    """One of them."""

    call: str
    loss: str
    change: str
    pause: timedelta
    turns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.call} {self.loss}, after {self.pause}: {', '.join(self.turns)}, with {self.change}"


def orders() -> Iterator[Order]:
    """All: the change before, between and after the scheduler's turns in each of their orders."""
    for call, loss, change, pause in product(CALLS, LOSSES, CHANGES, PAUSES):
        for turns in permutations((*TURNS, "change")):
            yield Order(call, loss, change, pause, turns)


@dataclass
class Ordered(History):
    """A history of one invoice whose card is charged at once."""

    order: Order | None = None
    is_lost: bool = False

    def fate(self, method: str, path: str) -> str:
        """Of the requests that fit, the first one's answer is lost."""
        super().fate(method, path)  # looks whether a charge is due; there are no troubles by chance
        if self.order is None or self.is_lost or method != "POST" or not fnmatch(path, self.order.call):
            return ""
        self.is_lost = True
        return self.order.loss

    def do_change(self) -> None:
        """What the administrator does; refused while it is not known what Stripe did."""
        if self.order is None or not Invoice.objects.exists():
            return
        invoice = Invoice.objects.get()
        given = {"invoice_id": invoice.pk, "actor": self.cast.admin, "now": self.now}
        reason = {**given, "reason": "so agreed"}
        if self.order.change == "void":
            self._quietly(lambda: invoice_void(**reason))
        elif self.order.change == "note":
            self._quietly(lambda: credit_note_issue(**reason))
        elif self.order.change == "write-off":
            self._quietly(lambda: invoice_write_off(**reason))
        elif self.order.change == "transfer":
            self._quietly(lambda: invoice_mark_paid(**given, amount=invoice.due, reference="7/11"))
        else:
            self._quietly(lambda: push_retry(invoice_id=invoice.pk, client=self.client, now=self.now))


def faults(cast: Cast, contract: Contract, order: Order) -> list[str]:
    """What does not hold at the end of it; none is what must be. Everything is undone."""
    with override_settings(**SETTINGS), undone():
        history = Ordered(cast, contract, random.Random(str(order)), troubles=0.0)
        if order.call != CALLS[0]:
            history.customer_with_card()
        history.order = order
        history.do_issue()
        history.do_bring()
        history.now += order.pause
        for turn in order.turns:
            getattr(history, f"do_{turn}")()
            history.now += timedelta(minutes=1)
        history.settle()
        found = [] if history.is_lost else ["no call was lost"]
        return found + [f"{one} ({order})" for one in wrong(history)]
