"""What the API answers, typed. Amounts are exact decimals, instants carry their zone; `raw` holds the whole document."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Self, get_args, get_type_hints


@dataclass(frozen=True)
class Record:
    """The base: the document as the server sent it."""

    raw: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        """From a document of the API; fields that this version does not know stay in `raw`."""
        hints = get_type_hints(cls)
        names = [one.name for one in dataclasses.fields(cls) if one.name != "raw" and one.name in document]
        return cls(raw=document, **{name: _value(hints[name], document[name]) for name in names})


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    if kinds[0] is Decimal:
        return Decimal(value)
    if kinds[0] is datetime:
        return datetime.fromisoformat(value)
    if isinstance(value, list) and isinstance(kinds[0], type) and issubclass(kinds[0], Record):
        return [kinds[0].read(one) for one in value]
    return value


@dataclass(frozen=True)
class Me(Record):
    """Whom the token stands for."""

    email: str
    name: str
    role: str | None
    scopes: list[str] | None
    organisation: dict[str, Any] | None
    token: str | None = None  # its id


@dataclass(frozen=True)
class Pool(Record):
    """Devices of one kind at one place. `target` is None for a host pool."""

    slug: str
    name: str
    kind: str
    target: str | None
    devices: int


@dataclass(frozen=True)
class Version(Record):
    """One version of a model. `symbolic_dims` lists the variable dimensions that compiling needs sizes for."""

    id: str
    model: str
    number: int
    sha256: str
    size: int
    parameters: int
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    symbolic_dims: list[dict[str, Any]]


@dataclass(frozen=True)
class CompileJob(Record):
    """A compile job. `state` is queued, running, done, failed or cancelled."""

    id: str
    version_id: str
    target: str
    precision: str
    state: str
    stage: str
    error: dict[str, Any] | None
    program_ids: list[str]


@dataclass(frozen=True)
class Program(Record):
    """A compiled program: cycles and operations of one inference, exact or a proven bound."""

    id: str
    version_id: str
    target: str
    precision: str
    dims: dict[str, Any]
    digest: str
    exact: bool
    reason: str
    latency_cycles: int
    interval_cycles: int
    clock_hz: int
    operations: int
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    resources: dict[str, Any]


@dataclass(frozen=True)
class Quote(Record):
    """An offer with a locked price. `net` is the most that it can cost, `expected` what it is expected to cost."""

    id: str
    state: str
    klass: str
    pool: str
    net: Decimal
    expected: Decimal
    currency: str
    valid_until: datetime
    digest: str
    contract: str | None


@dataclass(frozen=True)
class ContractLine(Record):
    """One program of a contract."""

    number: int
    program: str | None
    program_digest: str
    model: str
    unit: str
    executions: int
    taken: int
    used: int
    quoted: Decimal
    actual: Decimal


@dataclass(frozen=True)
class Contract(Record):
    """An accepted quote. `net` was quoted, `actual` is what its use has cost so far."""

    id: str
    quote: str
    state: str
    klass: str
    pool: str
    net: Decimal
    actual: Decimal
    currency: str
    starts_at: datetime
    ends_at: datetime
    lines: list[ContractLine]
    late_charged: Decimal = Decimal(0)  # a part of `actual`


@dataclass(frozen=True)
class Ending(Record):
    """What ending a contract would be charged now. `late_charge`, a part of `charge`, is for time that is released late;
    before `free_until` nothing is."""

    charge: Decimal
    late_charge: Decimal
    currency: str
    free_until: datetime | None
    rises_at: datetime | None


@dataclass(frozen=True)
class Job(Record):
    """Work on items under a contract."""

    id: str
    contract: str
    pool: str
    state: str
    items: int
    executions_done: int
    blocks_done: int
    blocks_total: int
    starts_at: datetime | None
    ends_at: datetime | None
    problem: str
    cost: Decimal
    quoted: Decimal
    currency: str

    @property
    def is_final(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.state in {"done", "failed", "cancelled"}


@dataclass(frozen=True)
class Invoice(Record):
    """An issued invoice."""

    id: str
    number: str
    state: str
    currency: str
    net: Decimal
    payable: Decimal
    tax: Decimal
    due: Decimal
    period_start: datetime
    period_end: datetime
    issued_at: datetime


@dataclass(frozen=True)
class SpendCap(Record):
    """The most that an organisation, a project or a token may use and hold in a month. `scope` says whose it is."""

    scope: str
    project: str | None
    token: str | None
    cap: Decimal
    used: Decimal
    held: Decimal
    currency: str
