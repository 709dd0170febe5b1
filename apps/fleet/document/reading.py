"""Reads fleet documents and reports all faults together."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final, NamedTuple
from zoneinfo import available_timezones

from apps.currencies import PLACES as CURRENCIES
from apps.fleet.document.model import FORMAT, HOST, PLACES, STATES, Cost, Document, Pool, Site
from compiler import ModelError, targets

LARGEST: Final = 1 << 20  # bytes of a file
DEVICES_MAX: Final = 20_000
NAME_MAX: Final = 80
SHORT_MAX: Final = 40
CLASS_MAX: Final = 20
MONTHS_MAX: Final = 1200
MOST: Final = Decimal(10) ** 9
FIRST_YEAR, LAST_YEAR = 2000, 2100
SHOWN: Final = 20  # faults that a message repeats
_SLUG = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,38}[A-Za-z0-9])?")
_CODE = re.compile(r"[A-Z]{3}")
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")


class Fault(NamedTuple):
    """A fault: its place in the document, and a sentence that states the fault and the remedy."""

    place: str
    said: str

    def __str__(self) -> str:
        return f"{self.place}: {self.said}" if self.place else self.said


class DocumentError(ValueError):
    """Raised if the document has faults. `faults` lists all of them."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        more = len(faults) - SHOWN
        shown = [str(fault) for fault in faults[:SHOWN]]
        super().__init__(" ".join(shown) + (f" And {more} more." if more > 0 else ""))


def parse(data: bytes | str, *, known: Mapping[str, str]) -> Document:
    """Parse a TOML file. Raises DocumentError with every fault.

    `known` maps the processors that ship with the compiler to their price classes.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > LARGEST:
        raise DocumentError(
            [Fault("", f"The file is {len(raw):,} bytes; a fleet file can be at most {LARGEST:,} bytes.")]
        )
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        said = f"The file is not UTF-8 text (byte {error.start + 1}); save it as UTF-8."
        raise DocumentError([Fault("", said)]) from None
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation, OverflowError) as error:
        why = "its tables are nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
        raise DocumentError([Fault("", f"The file is not TOML: {why}. Correct the file and try again.")]) from None
    return check(document, known=known)


def check(raw: object, *, known: Mapping[str, str] | None) -> Document:
    """Read a document from plain data. Raises DocumentError with every fault.

    `known` maps the processors that ship with the compiler to their price classes. If `known` is None, any processor
    name is accepted.
    """
    reader = _Reader(known)
    document = reader.document(raw)
    if reader.faults:
        raise DocumentError(reader.faults)
    return document


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones())


class _Reader:
    def __init__(self, known: Mapping[str, str] | None) -> None:
        self.known = known
        self.faults: list[Fault] = []
        self.devices = 0

    def document(self, raw: object) -> Document:
        table = self._table("", raw, {"format", "sites", "processors", "pools"})
        if table.get("format") != FORMAT:
            self._fault("format", f'the file must begin with format = "{FORMAT}"; write that line.')
        sites = {slug: self._site(place, one) for slug, place, one in self._named(table, "sites")}
        processors = {name: self._processor(place, name, one) for name, place, one in self._named(table, "processors")}
        classes = None if self.known is None else dict(self.known)
        if classes is not None:
            classes |= {name: klass for name, (_, klass) in processors.items()}
        pools = {slug: self._pool(slug, place, one, sites, classes) for slug, place, one in self._named(table, "pools")}
        if self.devices > DEVICES_MAX:
            self._fault("pools", f"the file has {self.devices:,} devices; a fleet has at most {DEVICES_MAX:,}.")
        return Document(sites, {name: text for name, (text, _) in processors.items()}, pools)

    def _site(self, place: str, raw: object) -> Site:
        table = self._table(place, raw, {"name", "time_zone"})
        zone = self._text(f"{place}.time_zone", table.get("time_zone", "UTC"), most=60)
        if zone and zone not in _time_zones():
            self._fault(f"{place}.time_zone", f'{zone!r} is no time zone; write an IANA name such as "Europe/Zurich".')
        return Site(self._text(f"{place}.name", table.get("name")), zone)

    def _processor(self, place: str, name: str, raw: object) -> tuple[str, str]:
        table = self._table(place, raw, {"file"})
        text = table.get("file")
        if not isinstance(text, str) or not text:
            self._fault(f"{place}.file", "the processor's file is missing; write its TOML between three quotes.")
            return "", ""
        if (self.known is not None and name in self.known) or name == HOST:
            self._fault(place, "a processor of this name ships already; give yours another name.")
        try:
            target = targets.parse(text)
        except ModelError as error:
            self._fault(f"{place}.file", f"{str(error).rstrip('.')}.")
            return text, ""
        if target.name != name:
            self._fault(place, f"its file says that its name is {target.name!r}; write [processors.{target.name}].")
        return text, target.price_class

    def _pool(
        self, slug: str, place: str, raw: object, sites: Mapping[str, Site], classes: Mapping[str, str] | None
    ) -> Pool:
        table = self._table(place, raw, {"name", "site", "processor", "class", "power_percent", "devices", "cost"})
        site = self._text(f"{place}.site", table.get("site"), most=SHORT_MAX)
        if site and site not in sites:
            self._fault(f"{place}.site", f"there is no site {site!r}; {_one_of(sites, 'sites')}.")
        processor, usual = self._pool_processor(f"{place}.processor", table.get("processor"), classes)
        klass = self._text(f"{place}.class", table.get("class", usual or "?"), most=CLASS_MAX)
        power = self._power(f"{place}.power_percent", table.get("power_percent", 100), is_host=processor == HOST)
        return Pool(
            name=self._text(f"{place}.name", table.get("name", slug)),
            site=site,
            processor=processor,
            klass=klass,
            devices=self._devices(slug, f"{place}.devices", table.get("devices", 0)),
            costs=self._costs(f"{place}.cost", table.get("cost", [])),
            power_percent=power,
        )

    def _pool_processor(self, place: str, raw: object, classes: Mapping[str, str] | None) -> tuple[str, str | None]:
        processor = self._text(place, raw, most=SHORT_MAX)
        if processor == HOST:
            return processor, HOST
        if processor and classes is not None and processor not in classes:
            known = _one_of([HOST, *classes], "processors")
            self._fault(place, f"there is no processor {processor!r}; {known}.")
        return processor, (classes or {}).get(processor)

    def _power(self, place: str, raw: object, *, is_host: bool) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not 1 <= raw <= 100:
            self._fault(place, "write the share of the clock, a whole number from 1 to 100.")
            return 100
        if is_host and raw != 100:
            self._fault(place, "a host is measured as it runs; remove the power setting.")
        return raw

    def _devices_counted(self, slug: str, place: str, count: int) -> dict[str, str]:
        if not 0 <= count <= DEVICES_MAX:
            self._fault(place, f"a pool has 0 to {DEVICES_MAX:,} devices; write a number in that range.")
            return {}
        self.devices += count
        if count and len(f"{slug}-{count - 1}") > SHORT_MAX:
            self._fault(place, f"{slug}-{count - 1} is longer than {SHORT_MAX} characters; list shorter names.")
        return {f"{slug}-{number}": STATES[0] for number in range(count)}

    def _devices(self, slug: str, place: str, raw: object) -> dict[str, str]:
        # `raw` is a number of devices, a list of names, or a list of tables with name and state.
        if isinstance(raw, int) and not isinstance(raw, bool):
            return self._devices_counted(slug, place, raw)
        if not isinstance(raw, list):
            self._fault(place, 'write how many (devices = 4), or a list of names (devices = ["a", "b"]).')
            return {}
        self.devices += len(raw)
        if len(raw) > DEVICES_MAX:
            return {}
        found: dict[str, str] = {}
        for index, one in enumerate(raw):
            here = f"{place}[{index}]"
            table = {"name": one} if isinstance(one, str) else self._table(here, one, {"name", "state"})
            name = self._text(f"{here}.name", table.get("name"), most=SHORT_MAX)
            state = self._state(f"{here}.state", table.get("state", STATES[0]))
            if name in found and name:
                self._fault(here, f"{name!r} is the name of another device of this pool; give each its own name.")
            found[name] = state
        return found

    def _state(self, place: str, raw: object) -> str:
        if isinstance(raw, str) and raw in STATES:
            return raw
        self._fault(place, f"{_shown(raw)} is not a state; write one of {', '.join(STATES)}.")
        return STATES[0]

    def _costs(self, place: str, raw: object) -> tuple[Cost, ...]:
        if isinstance(raw, dict):
            raw = [raw]
        if not isinstance(raw, list):
            self._fault(place, "write a table for each cost, [[pools.NAME.cost]].")
            return ()
        found: dict[datetime, Cost] = {}
        for index, one in enumerate(raw):
            here = f"{place}[{index}]"
            cost = self._cost(here, one)
            if cost is not None and cost.begins in found:
                self._fault(f"{here}.from", "another cost of this pool begins at that instant; keep one of the two.")
            if cost is not None:
                found[cost.begins] = cost
        return tuple(found[begins] for begins in sorted(found))

    def _cost(self, place: str, raw: object) -> Cost | None:
        names = {"from", "currency", "capital", "months", "watts", "energy_price", "pue"}
        table = self._table(place, raw, names)
        begins = self._instant(f"{place}.from", table.get("from"))
        currency = self._text(f"{place}.currency", table.get("currency"), most=3)
        is_known = (
            currency in CURRENCIES if self.known is not None else _CODE.fullmatch(currency)
        )  # stored ones stay readable
        if currency and not is_known:
            self._fault(f"{place}.currency", f'{currency!r} is not a currency of ISO 4217; write one such as "EUR".')
        months = table.get("months")
        if isinstance(months, bool) or not isinstance(months, int) or not 1 <= months <= MONTHS_MAX:
            self._fault(f"{place}.months", f"write over how many months it depreciates, 1 to {MONTHS_MAX}.")
            months = 1
        capital = self._decimal(f"{place}.capital", table.get("capital"))
        watts = self._decimal(f"{place}.watts", table.get("watts"))
        energy = self._decimal(f"{place}.energy_price", table.get("energy_price"))
        pue = self._decimal(f"{place}.pue", table.get("pue", 1), least=Decimal(1))
        if begins is None:
            return None
        return Cost(begins, currency, capital, months, watts, energy, pue)

    def _instant(self, place: str, raw: object) -> datetime | None:
        value = raw
        if isinstance(raw, str):
            try:
                value = datetime.fromisoformat(raw)
            except ValueError:
                value = None
        if not isinstance(value, datetime) or value.tzinfo is None or not FIRST_YEAR <= value.year < LAST_YEAR:
            years = f"between {FIRST_YEAR} and {LAST_YEAR}"
            self._fault(place, f"write an instant {years} with its zone, such as 2026-01-01T00:00:00Z.")
            return None
        return value.astimezone(UTC)

    def _decimal(self, place: str, raw: object, *, least: Decimal = Decimal(0)) -> Decimal:
        # TOML numbers are read exactly, not as binary fractions.
        value = _decimal_of(raw)
        if value is None:
            self._fault(place, 'write a number such as 1250 or "0.28".')
            return least
        if not least <= value < MOST:
            what = "a cost is not negative" if value < 0 else f"{value} is out of range"
            self._fault(place, f"{what}; write a number of at least {least} and less than {MOST:,}.")
            return least
        exponent = value.normalize().as_tuple().exponent
        if isinstance(exponent, int) and exponent < -PLACES:
            self._fault(place, f"write at most {PLACES} places after the point.")
            return least
        return value.normalize() if value else Decimal(0)

    def _text(self, place: str, raw: object, *, most: int = NAME_MAX) -> str:
        if raw is None:
            self._fault(place, f'it is missing; write {place.rpartition(".")[2]} = "...".')
            return ""
        if not isinstance(raw, str) or not raw.isprintable() or raw != raw.strip() or not 1 <= len(raw) <= most:
            self._fault(place, f"write 1 to {most} characters of text on one line, without spaces at its ends.")
            return ""
        return raw

    def _named(self, table: Mapping[str, Any], key: str) -> list[tuple[str, str, Any]]:
        section = table.get(key, {})
        if not isinstance(section, dict):
            self._fault(key, f"write a table for each, such as [{key}.home].")
            return []
        found = []
        for name, one in section.items():
            place = f"{key}.{_shown_key(name)}"
            if not _SLUG.fullmatch(name):
                said = (
                    f"a name has 1 to {SHORT_MAX} letters (a-z), digits, - and _, at its ends no - or _; write another."
                )
                self._fault(place, said)
                continue
            found.append((name, place, one))
        return found

    def _table(self, place: str, raw: object, names: set[str]) -> dict[str, Any]:
        if not isinstance(raw, dict):
            self._fault(place, "a table is expected here; write its keys one by one.")
            return {}
        for key in raw:
            if key not in names:
                known = ", ".join(sorted(names))
                here = f"{place}.{_shown_key(key)}" if place else _shown_key(key)
                self._fault(
                    here, f"there is no such key; the known keys are: {known}. Remove the key or correct its name."
                )
        return {key: value for key, value in raw.items() if key in names}

    def _fault(self, place: str, said: str) -> None:
        self.faults.append(Fault(place, said))


def _decimal_of(raw: object) -> Decimal | None:
    value = None
    if isinstance(raw, int | Decimal) and not isinstance(raw, bool):
        value = Decimal(str(raw))
    elif isinstance(raw, str) and _DECIMAL.fullmatch(raw):
        value = Decimal(raw)
    if value is None or not value.is_finite() or (value.adjusted() > 11 and not value.is_zero()):
        return None
    return value


def _one_of(names: Any, what: str) -> str:
    known = sorted(set(names))
    return f"{what} are {', '.join(known[:SHOWN])}; choose one" if known else f"the file has no {what}; add it first"


def _shown(value: object) -> str:
    return repr(value)[:SHORT_MAX]


def _shown_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key) else repr(key[:SHORT_MAX])
