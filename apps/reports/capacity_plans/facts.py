"""The inputs of a capacity plan: the pools and their devices, and the demand of the contracts in force."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from django.db.models import Count, Q

from apps.compilation.models import Program
from apps.compilation.selectors import program_load
from apps.fleet.models import DeviceState, Pool
from apps.fleet.selectors import processor_find
from apps.reports.costs import segments
from apps.sales.models import Contract, ContractLine, ContractState
from apps.timetable.instants import seconds_between
from compiler import ModelError, targets


@dataclass(frozen=True)
class Load:
    """A program and its demand. `rate` is the number of executions per second.

    Cycles, bytes and energy (in femtojoules) are per execution. `resident`: the bytes that the program occupies on the
    device. `moved`: the bytes that cross the link to load the program.
    """

    digest: str
    model: str
    contracts: int
    rate: Fraction
    interval: int
    latency: int
    bytes_in: int
    bytes_out: int
    resident: int
    moved: int
    energy: int


def _load_bytes(program: Program) -> int:
    load = program_load(program)
    return program.binary_bytes if load is None else load["bytes_in"]


@dataclass(frozen=True)
class PoolFacts:
    """A pool and its programs. Rates are per second, memory is in bytes, and idle energy is in femtojoules per cycle.
    The cost per hour is None if unknown.
    """

    slug: str
    owned: int
    clock: int
    link_in: int
    link_out: int
    memory: int
    cycle_energy: int
    per_hour: Fraction | None
    loads: tuple[Load, ...]


@dataclass(frozen=True)
class Facts:
    """The inputs of all pools. `left_out` holds a sentence about each contract, pool or program that the plan leaves
    out.
    """

    pools: tuple[PoolFacts, ...]
    left_out: tuple[str, ...]
    currency: str

    @property
    def digest(self) -> str:
        """The SHA-256 digest of all inputs."""
        text = json.dumps(asdict(self), default=str, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def facts_at(*, now: datetime, currency: str) -> Facts:
    """Return the inputs of a plan made at `now`."""
    lines, left_out = _lines(now)
    pools = (
        Pool.objects.filter(is_active=True)
        .select_related("processor")
        .annotate(owned=Count("devices", filter=Q(devices__state=DeviceState.ACTIVE)))
        .order_by("slug")
    )
    costs = segments(start=now, end=now + timedelta(microseconds=1), currency=currency)[0]
    found = []
    for pool in pools:
        processor = pool.processor
        if processor is None:
            left_out.append(
                f"{pool.slug} is a host pool. The plan leaves out host pools, because their work is measured, not known in "
                "advance."
            )
            continue
        target = target_of(processor.name, processor.digest)
        if target is None:
            left_out.append(f"{pool.slug}: its processor {processor} is no longer offered.")
            continue
        found.append(
            PoolFacts(
                pool.slug,
                pool.owned,
                pool.clock_at(target.clock_hz),
                per_second(target, "link_in"),
                per_second(target, "link_out"),
                target.memory_bytes,
                target.energy["cycle"],
                costs.rate(pool.processor_class, pool.pk),
                tuple(_loads(lines.get(pool.pk, ()), target, left_out, now)),
            )
        )
    return Facts(tuple(found), tuple(left_out), currency)


def target_of(name: str, digest: str) -> Any | None:
    """Return the description of a processor; None if the processor is no longer offered."""
    try:
        return processor_find(name=name, digest=digest) or targets.find(name, digest)
    except ModelError:
        return None


def per_second(target: Any, link: str) -> int:
    unit = getattr(target, link)
    return int(unit.instances * unit.bytes_per_cycle * target.clock_hz)


def _lines(now: datetime) -> tuple[dict[Any, list[ContractLine]], list[str]]:
    in_force = Contract.objects.filter(state=ContractState.ACTIVE, starts_at__lte=now, ends_at__gt=now)
    quotas = in_force.filter(quota__isnull=False).count()
    by_pool = defaultdict(list)
    lines = ContractLine.objects.filter(contract__in=in_force, executions__isnull=False)
    for line in lines.select_related("contract", "program__model_version__model").order_by("contract_id", "number"):
        by_pool[line.contract.pool_id].append(line)
    sentence = f"{quotas} quota contract{'' if quotas == 1 else 's'} name no program, so their work is not planned."
    return by_pool, [sentence] if quotas else []


def _loads(lines: Iterable[ContractLine], target: Any, left_out: list[str], now: datetime) -> Iterable[Load]:
    by_digest: dict[str, list[ContractLine]] = defaultdict(list)
    for line in lines:
        by_digest[line.program_digest].append(line)
    for digest, some in sorted(by_digest.items()):
        program = some[0].program
        name = program.model_version.model.name
        resources = program.resources
        if program.target_digest != target.digest or "io" not in resources:
            left_out.append(f"{name} ({digest[:12]}) was compiled for a different version of the processor.")
            continue
        rate = sum(
            (
                Fraction(line.executions or 0) / seconds_between(line.contract.starts_at, line.contract.ends_at)
                for line in some
            ),
            Fraction(0),
        )
        yield Load(
            digest,
            name,
            len({line.contract_id for line in some}),
            rate,
            program.interval_cycles,
            program.latency_cycles,
            int(resources["io"]["bytes_in"]),
            int(resources["io"]["bytes_out"]),
            int(resources["storage"]["total"]),
            _load_bytes(program),
            max(0, int(resources["energy_fj"]) - target.energy["cycle"] * program.latency_cycles),
        )
