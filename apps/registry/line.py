"""The queue for upload checks, in which organisations take turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Waiting:
    """An upload that waits for its check. `since` is the time at which the wait began."""

    upload_id: UUID
    organisation_id: UUID
    since: datetime


def line_of(waiting: Iterable[Waiting], last_turns: Mapping[UUID, datetime]) -> list[UUID]:
    """Return the uploads in the order of their checks: round robin over the organisations, oldest upload first.

    The organisation whose last turn was longest ago comes first.
    """
    queues: dict[UUID, list[Waiting]] = defaultdict(list)
    for one in sorted(waiting, key=lambda one: (one.since, one.upload_id)):
        queues[one.organisation_id].append(one)
    turns = sorted(queues, key=lambda key: (last_turns.get(key, LONG_AGO), queues[key][0].since, key))
    found: list[UUID] = []
    for round_number in range(max((len(queue) for queue in queues.values()), default=0)):
        found += [queues[key][round_number].upload_id for key in turns if round_number < len(queues[key])]
    return found
