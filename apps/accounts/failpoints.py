"""Named points in the code at which a test can kill the process to check recovery (compare FreeBSD's fail(9)).

`TAKT_FAILPOINT=<point>=<marker file>` kills the first process that reaches the point. Later processes continue, because
the marker file exists.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "TAKT_FAILPOINT"

# Between execution and the customer's endpoint, in the order in which money passes them.
POINTS = (
    "lease.taken",  # the lease is ours, nothing has run
    "lease.executed",  # the block has run, its outputs are only in memory
    "lease.outputs_stored",  # outputs are in the storage, nobody knows of them
    "lease.fenced",  # inside the completing transaction, before usage
    "usage.held",  # the hold is charged, nothing is posted
    "ledger.transaction",  # a transaction without entries
    "ledger.entries",  # entries, and the chain's head is the old one
    "ledger.outbox",  # everything of the posting but the usage row
    "lease.posted",  # usage is posted, the lease is not done yet
    "lease.committed",  # the transaction is over, the message that moves the job on is not sent
    "job.outputs",  # the job's outputs are put together, its end is not written
    "invoice.stored",  # the invoice exists, nothing is posted
    "invoice.posted",  # posted, the audit entry is missing
    "outbox.handed",  # every handler has had its say, the rows are not marked
    # Between us and who collects for us.
    "stripe.acted",  # Stripe has acted, its answer is not kept
    "stripe.draft",  # Stripe has a draft of which we keep nothing yet
    "stripe.item",  # Stripe has a part of the lines
    "stripe.finalised",  # Stripe collects, our row still says that it waits
    "webhook.stored",  # Stripe's event is kept, nobody was told to handle it
    "webhook.handled",  # what the event brought is written, the transaction is not over
    "payment.recorded",  # money is posted and settles the invoice, word for others is missing
)

_armed: tuple[str, Path] | None = None


def arm(point: str, marker: Path) -> None:
    """Kill this process when it reaches `point`, once per marker file. Raises ValueError if the point does not exist."""
    global _armed  # noqa: PLW0603 - one per process, as an environment variable is
    if point not in POINTS:
        raise ValueError(f"no fail point is called {point!r}; there are {', '.join(POINTS)}")
    _armed = point, marker


def failpoint(point: str) -> None:
    """Kill the process if `point` is armed; otherwise, do nothing."""
    if _armed is None or _armed[0] != point:
        return
    try:
        os.close(os.open(_armed[1], os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _arm_from_environment() -> None:
    name, _, marker = os.environ.get(VARIABLE, "").partition("=")
    if name:
        arm(name, Path(marker))


_arm_from_environment()
