"""Many customers accept at the same moment: a real connection each, let go together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.sales.services import quote_accept


@dataclass
class Outcome:
    """Contracts won, and the kinds of refusal with one sentence each."""

    won: list[UUID] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    sentences: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)


def accept_together(quotes: Sequence[tuple[UUID, Organisation]], *, now: datetime) -> Outcome:
    """One thread and one database connection per quote; all pass one barrier before they accept."""
    outcome, lock = Outcome(), threading.Lock()
    barrier = threading.Barrier(len(quotes))

    def accept(quote_id: UUID, organisation: Organisation) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=60)
            contract = quote_accept(quote_id=quote_id, organisation=organisation, actor=None, now=now)
            with lock:
                outcome.won.append(contract.id)
        except Problem as refusal:
            with lock:
                outcome.refused[refusal.kind] += 1
                outcome.sentences.add(refusal.detail)
        except Exception as error:  # noqa: BLE001 - a thread must say what broke it
            with lock:
                outcome.broken.append(repr(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=accept, args=one) for one in quotes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome
