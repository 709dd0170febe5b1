"""The queue for upload checks. Organisations take turns, so that many uploads by one customer do not delay the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Waiting:
    """An upload that has waited for its check since `since`."""

    upload_id: UUID
    organisation_id: UUID
    since: datetime


def line_of(waiting: Iterable[Waiting], last_turns: Mapping[UUID, datetime]) -> list[UUID]:
    """Return the uploads in the order of their checks: round robin over the organisations, and the oldest upload first
    within each organisation.

    The organisation whose last turn was longest ago comes first. An organisation that never had a turn precedes all
    others.
    """
    queues: dict[UUID, list[Waiting]] = defaultdict(list)
    for one in sorted(waiting, key=lambda one: (one.since, one.upload_id)):
        queues[one.organisation_id].append(one)
    turns = sorted(queues, key=lambda key: (last_turns.get(key, LONG_AGO), queues[key][0].since, key))
    found: list[UUID] = []
    for round_number in range(max((len(queue) for queue in queues.values()), default=0)):
        found += [queues[key][round_number].upload_id for key in turns if round_number < len(queues[key])]
    return found
