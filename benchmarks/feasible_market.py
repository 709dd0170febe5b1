"""Random fleets, timetables and tasks for `benchmarks.feasible`: everything follows from a seed and a number."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apps.accounts.models import Organisation, User
    from apps.compilation.models import Program
    from apps.fleet.models import Pool, ProcessorVersion, Site
    from apps.planner.models import Task
    from apps.registry.models import ModelFamily, ModelVersion

START = datetime(2026, 1, 1, tzinfo=UTC)
BOOKS = (START, datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 8, 1, tzinfo=UTC))  # since when each book holds
MICROSECOND, DAY = timedelta(microseconds=1), 86_400 * 10**6  # DAY in microseconds
CLOCKS = {"lpu": 900_000_000, "beta": 333_333_300, "gamma": 1_050_000_100}
CLASSES = {
    "lpu": ("lpu", "lpu"),
    "beta": ("lpu2", "lpu2"),
    "gamma": ("lpu", "prototype"),
}  # the last is in no price book
OLD = {name: sha256(f"{name}, as it was described before".encode()).hexdigest() for name in CLOCKS}
POWERS = (100, 100, 100, 50, 73, 37)
STATES = ("active", "active", "active", "active", "draining", "failed", "spare")
SCALES = (1, 1_000, 10**6, 60 * 10**6, 3_600 * 10**6, DAY)  # microseconds
DEVICES, DATA = 20, "d" * 64


@dataclass
class Base:
    """What every fleet shares: an organisation with its people, a site, processors, three price books."""

    organisation: Organisation
    engineer: User
    owner: User
    stranger: Organisation
    site: Site
    processors: dict[str, ProcessorVersion]
    market: Any  # that of the tests, whose pools are not active while fleets are made


@dataclass
class Market:
    """A fleet with its timetable, and a task."""

    now: datetime
    pools: list[Pool]
    subject: ModelVersion | Task
    programs: list[Program]
    klass: str
    stated: dict[str, Any] = field(default_factory=dict)
    until: datetime | None = None


def base_open() -> Base:
    """Once, before the first fleet. The second book has a minimum of a contract, the third hours that cost more or less."""
    from apps.fleet.models import Pool, ProcessorVersion
    from apps.pricing.services import pricebook_publish
    from tests.cast import assemble
    from tests.pricing.rating.books import document
    from tests.sales.market import open_market

    cast, market = assemble(), open_market(devices=1)
    Pool.objects.update(is_active=False)
    changes: list[dict[str, Any]] = [{"contract_minimum": "3.5"}, {}]
    for version, (change, begins) in enumerate(zip(changes, BOOKS[1:], strict=True), 2):
        book = document(lambda one, change=change, version=version: one.update(change, version=version))
        if version == 3:
            book["tariff"]["periods"][0]["factor"], book["tariff"]["periods"][1]["factor"] = "1.25", "0.8"
            book["classes"]["standard"]["time_of_use"] = True
            book["classes"]["batch"]["finish_within_minutes"] = 90
            book["classes"]["priority"]["start_within_minutes"] = 1
        pricebook_publish(document=book, effective_from=begins, now=begins - timedelta(days=40))
    processors = {
        name: market.processors.get(name)
        or ProcessorVersion.objects.create(
            name=name, digest=sha256(name.encode()).hexdigest(), clock_hz=clock, memory_bytes=2**27, created_at=START
        )
        for name, clock in CLOCKS.items()
    }
    people = (cast.organisation, cast.engineer, cast.owner, cast.stranger_organisation)
    return Base(*people, market.lpu.site, processors, market)


def market_open(base: Base, seed: int, number: int) -> tuple[Market, random.Random]:
    """The fleet, the timetable and the task with that number. Call it in a transaction that is rolled back."""
    dice = random.Random(f"{seed}/{number}")
    now = START + timedelta(microseconds=dice.randrange(330 * DAY))
    now = now.replace(microsecond=0) if dice.random() < 0.3 else now
    pools = [_pool(base, dice, number, place) for place in range(dice.randrange(1, 9))]
    _timetable(base, dice, pools, now)
    subject, programs = _subject(base, dice, pools)
    klass = dice.choice(["standard", "standard", "standard", "batch", "priority"])
    market = Market(now, pools, subject, programs, klass)
    market.stated = {"items": _items(dice, programs)}
    if dice.random() < 0.4:
        market.until = now + timedelta(microseconds=_scaled(dice, 62 * DAY))
    return market, dice


def _scaled(dice: random.Random, most: int) -> int:
    """A whole number from 1 to `most`, each order of magnitude as likely as the others."""
    return min(most, max(1, round(most ** dice.random() * dice.uniform(0.7, 1.3))))


def _pool(base: Base, dice: random.Random, number: int, place: int) -> Pool:
    from apps.fleet.models import Device, Pool, PoolKind

    name = None if dice.random() < 0.2 else dice.choice(sorted(CLOCKS))
    pool = Pool.objects.create(
        slug=f"f{number}-{place}",
        name=f"Pool {place}",
        site=base.site,
        created_at=START,
        is_active=dice.random() < 0.95 or not place,
        kind=PoolKind.SIMULATED if name else PoolKind.HOST,
        processor=base.processors[name] if name else None,
        processor_class=dice.choice(CLASSES[name]) if name else "host",
        power_percent=dice.choice(POWERS) if name else 100,
    )
    count = dice.choice([1, 1, 2, 3, dice.randrange(1, DEVICES + 1)])
    Device.objects.bulk_create(
        Device(pool=pool, name=f"d{each}", state=dice.choice(STATES) if dice.random() < 0.5 else "active")
        for each in range(count)
    )
    return pool


def _timetable(base: Base, dice: random.Random, pools: list[Pool], now: datetime) -> None:
    """Windows that are sold already, and some that were given back and hold nothing."""
    from django.db import connection
    from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

    from apps.timetable.models import Reservation, Window

    rows = []
    for pool in pools:
        reservation = Reservation.objects.create(
            contract_id=pool.pk, organisation=base.stranger, pool=pool, klass="standard", created_at=now
        )
        kind = dice.choice(["empty", "sparse", "dense", "dense", "full", "mixed"])
        for device in pool.devices.order_by("name"):
            for start, end, is_sold in _busy(dice, kind):
                period = DateTimeTZRange(now + start * MICROSECOND, now + end * MICROSECOND, "[)")
                state = "active" if is_sold else "released"
                rows.append(Window(reservation=reservation, device=device, period=period, state=state))
    Window.objects.bulk_create(rows)
    with connection.cursor() as cursor:  # what was written in this transaction alone is in no statistics yet
        cursor.execute("ANALYZE timetable_window, timetable_reservation, fleet_device")


def _busy(dice: random.Random, kind: str) -> list[tuple[int, int, bool]]:
    """(start, end, sold) in microseconds from now, the sold ones apart from each other."""
    kind = dice.choice(["empty", "sparse", "dense", "full"]) if kind == "mixed" else kind
    if kind == "empty":
        return []
    if kind == "full":
        hole = dice.choice([0, 0, _scaled(dice, 3 * DAY)])
        begins = dice.randrange(62 * DAY)
        return [(-DAY, begins, True), (begins + hole, 70 * DAY, True)]
    gap, length = dice.choice(SCALES), dice.choice(SCALES)
    many = dice.randrange(1, 8) if kind == "sparse" else dice.randrange(20, 120)
    if kind == "dense" and dice.random() < 0.7:  # spread over the whole time that a quote reaches
        whole = 64 * DAY // many
        gap, length = dice.choice([(whole // 50, whole), (whole // 2, whole // 2), (whole, whole // 50), (5, whole)])
    found, at = [], -dice.randrange(2 * length + 1)
    for _ in range(many):
        at += dice.choice([0, 1, gap, dice.randrange(2 * gap + 1)])
        end = at + max(1, dice.choice([1, length, dice.randrange(2 * length + 1)]))
        found.append((at, end, True))
        if dice.random() < 0.05:
            found.append((at, end + gap, False))
        at = end
        if at > 70 * DAY:
            break
    return found


def _subject(base: Base, dice: random.Random, pools: list[Pool]) -> tuple[ModelVersion | Task, list[Program]]:
    """Up to three models, each compiled for some processors in some precisions; most of them evaluated, by their owner
    (the subject is a version) or by the platform (the subject is a task)."""
    from apps.planner.models import Task
    from apps.registry.labelled import split_digest
    from apps.registry.models import DataSet, ModelFamily

    is_task = dice.random() < 0.5
    total, choose = dice.randrange(30, 90), dice.randrange(8, 25)
    digest = split_digest(DATA, 1, choose) if is_task else DATA
    family = ModelFamily.objects.create(
        organisation=base.organisation, name="data", metric="accuracy", dataset_digest=digest, created_at=START
    )
    labels = [dice.randrange(5) for _ in range(total)]
    programs, versions = [], []
    for place in range(dice.randrange(1, 4)):
        version, compiled = _model(base, dice, pools, place)
        versions.append(version)
        programs += compiled
        _evaluate(dice, family, version, compiled if is_task else None, labels, choose, place)
    if not is_task:
        return dice.choice(versions), programs
    data = DataSet.objects.create(
        organisation=base.organisation,
        name="data",
        digest=DATA,
        items=total,
        inputs=[],
        label_shape=[],
        classes=5,
        seed=1,
        choose=choose,
        size=1,
        storage_key="x",
        created_by=base.engineer,
        created_at=START,
    )
    task = Task.objects.create(
        organisation=base.organisation,
        name="task",
        data_set=data,
        metric="accuracy",
        k=1,
        created_by=base.engineer,
        created_at=START,
    )
    return task, programs


def _model(base: Base, dice: random.Random, pools: list[Pool], place: int) -> tuple[ModelVersion, list[Program]]:
    from apps.fleet.models import HostMeasurement
    from apps.registry.models import Model, ModelVersion, Project

    project, _ = Project.objects.get_or_create(
        organisation=base.organisation, name="Default", defaults={"created_at": START}
    )
    model = Model.objects.create(
        organisation=base.organisation, project=project, name=f"model-{place}", created_at=START
    )
    version = ModelVersion.objects.create(
        organisation=base.organisation,
        model=model,
        number=1,
        sha256=sha256(model.pk.bytes).hexdigest(),
        size=1000,
        filename="m.onnx",
        storage_key="m",
        opset=17,
        inputs=[],
        outputs=[],
        created_by=base.engineer,
        created_at=START,
    )
    programs = [
        _program(base, dice, version, name, precision)
        for name in sorted(CLOCKS)
        for precision in ("float32", "int8")
        if dice.random() < (0.85 if precision == "float32" else 0.4)
    ]
    for pool in pools:
        for program in programs:
            if pool.processor is None and dice.random() < 0.8:
                p95 = _scaled(dice, 10**13)
                HostMeasurement.objects.create(
                    pool=pool,
                    program_digest=program.digest,
                    samples=9,
                    p50_ns=p95,
                    p95_ns=p95,
                    p99_ns=p95,
                    hardware="host",
                    measured_at=START,
                )
    return version, programs


def _program(base: Base, dice: random.Random, version: ModelVersion, target: str, precision: str) -> Program:
    from apps.compilation.models import CompileJob, Program

    interval = _scaled(dice, 10**13) + 1
    latency = dice.choice([interval, interval // 2 + 1, interval * 3 + dice.randrange(interval)])
    is_old = dice.random() < 0.08  # compiled for an earlier description of the processor
    job = CompileJob.objects.create(
        organisation=base.organisation,
        model_version=version,
        created_by=base.engineer,
        target=target,
        created_at=START,
        state=CompileJob.State.DONE,
        finished_at=START,
    )
    operations = interval * dice.randrange(1, 3000)
    return Program.objects.create(
        organisation=base.organisation,
        model_version=version,
        compile_job=job,
        target=target,
        precision=precision,
        target_digest=OLD[target] if is_old else base.processors[target].digest,
        options_digest="0" * 64,
        compiler_version="1",
        digest=sha256(f"{version.pk}{target}{precision}".encode()).hexdigest(),
        binary_bytes=1,
        binary_key="x",
        report_key="x",
        inputs=[],
        outputs=[{"name": "y", "dtype": "float32", "shape": [1, 5]}],
        resources=_load(dice),
        bounds={},
        exact=dice.random() < 0.9,
        latency_cycles=latency,
        interval_cycles=interval,
        clock_hz=CLOCKS[target],
        operations=operations,
        executed_operations=operations,
        created_at=START,
    )


def _load(dice: random.Random) -> dict[str, Any]:
    """What loading the program takes, where that is known of it."""
    if dice.random() < 0.3:
        return {}
    return {
        "load": {"bytes_in": dice.randrange(2**27), "bytes_out": 0, "cycles_in": _scaled(dice, 10**11), "cycles_out": 0}
    }


def _evaluate(
    dice: random.Random,
    family: ModelFamily,
    version: ModelVersion,
    programs: list[Program] | None,
    labels: list[int],
    choose: int,
    place: int,
) -> None:
    """What the model answered; of a task what each of its programs did, on processors and on hosts."""
    from apps.registry.models import Evaluation

    keys = [("", False)] if programs is None else [(one.digest, host) for one in programs for host in (False, True)]
    for digest, is_host in keys:
        if dice.random() < 0.15:
            continue
        skill = 0.5 + 0.15 * place + dice.uniform(0, 0.25)
        predicted = [one if dice.random() < skill else one + 1 for one in labels]
        sure = [
            f"{(0.5 if a == b else 0.2) + dice.randrange(10) / 20:.2f}" for a, b in zip(labels, predicted, strict=True)
        ]
        parts = {"choose": slice(0, choose), "evaluate": slice(choose, None)}
        items = {
            name: {"labels": labels[part], "predicted": predicted[part], "confidence": sure[part]}
            for name, part in parts.items()
        }
        Evaluation.objects.create(
            family=family,
            model_version=version,
            dataset_name="data",
            dataset_digest=family.dataset_digest,
            metric="accuracy",
            correct=1,
            total=len(labels),
            lower_bound=0,
            confidence_output=dice.choice(["y", "y", "y", ""]),
            items=items,
            program_digest=digest,
            is_host=is_host,
            created_at=START,
        )


def _items(dice: random.Random, programs: list[Program]) -> int:
    """From one item to beyond every capacity, by the time that one of the programs takes for them."""
    if not programs or dice.random() < 0.1:
        return dice.choice([1, 2, _scaled(dice, 10**12)])
    program = dice.choice(programs)
    seconds = _scaled(dice, 300 * DAY) / 10**6
    return max(1, min(10**12, int(seconds * program.clock_hz / program.interval_cycles)))


def tightened(market: Market, row: dict[str, Any] | None, dice: random.Random) -> Market:
    """The same with requirements at the edge of what a row of a first plan comes to: exactly that, a little less, more."""
    stated: dict[str, Any] = dict(market.stated)
    if dice.random() < 0.3:
        stated["accuracy"] = Fraction(dice.randrange(20, 90), 100)
    if row is not None:
        for name, key in (
            ("latency", "latency"),
            ("duration", "duration"),
            ("budget", "price"),
            ("accuracy", "accuracy"),
        ):
            if row[key] is not None and dice.random() < 0.15:
                stated[name] = Fraction(row[key]) * dice.choice([1, 1, Fraction(999_999, 1_000_000), Fraction(3, 2)])
        if row["completion"] is not None and dice.random() < 0.4:
            until = datetime.fromisoformat(row["completion"]) - dice.choice([0, 0, 1, 10**6]) * MICROSECOND
            market.until = until if until > market.now else market.until
    if stated.get("accuracy") is not None and not 0 < stated["accuracy"] < 1:
        del stated["accuracy"]
    if stated.get("budget") is not None:
        stated["budget"] = _decimal(stated["budget"])
    stated = {name: value for name, value in stated.items() if value is None or value > 0}
    market.stated = stated
    return market


def _decimal(value: Fraction) -> Decimal:
    """Cut off after 30 places."""
    return Decimal(int(value * 10**30)).scaleb(-30)
