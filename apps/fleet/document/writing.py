"""Writes a fleet document as TOML. Reading the file gives the same document."""

from __future__ import annotations

import json
from collections.abc import Iterator

from apps.fleet.document.model import FORMAT, STATES, Cost, Document, Pool, natural

FULL_POWER = 100


def write(document: Document) -> str:
    """Return the file's text: sites, custom processors and pools, each section sorted by name."""
    return "\n".join([f"format = {_text(FORMAT)}", *_sites(document), *_processors(document), *_pools(document), ""])


def _sites(document: Document) -> Iterator[str]:
    for slug in sorted(document.sites):
        site = document.sites[slug]
        yield f"\n[sites.{slug}]"
        yield f"name = {_text(site.name)}"
        yield f"time_zone = {_text(site.time_zone)}"


def _processors(document: Document) -> Iterator[str]:
    for name in sorted(document.processors):
        yield f"\n[processors.{name}]"
        yield f"file = {_lines(document.processors[name])}"


def _pools(document: Document) -> Iterator[str]:
    for slug in sorted(document.pools):
        pool = document.pools[slug]
        yield f"\n[pools.{slug}]"
        for key, value in (
            ("name", pool.name),
            ("site", pool.site),
            ("processor", pool.processor),
            ("class", pool.klass),
        ):
            yield f"{key} = {_text(value)}"
        if pool.power_percent != FULL_POWER:
            yield f"power_percent = {pool.power_percent}"
        yield f"devices = {_devices(slug, pool)}"
        for cost in pool.costs:
            yield from _cost(slug, cost)


def _devices(slug: str, pool: Pool) -> str:
    # If all devices are active and have the default names, the number of devices is enough.
    if dict(pool.devices) == {f"{slug}-{number}": STATES[0] for number in range(len(pool.devices))}:
        return str(len(pool.devices))
    rows = [
        f"  {{ name = {_text(name)}, state = {_text(pool.devices[name])} }},"
        for name in sorted(pool.devices, key=natural)
    ]
    return "\n".join(["[", *rows, "]"])


def _cost(slug: str, cost: Cost) -> Iterator[str]:
    yield f"\n[[pools.{slug}.cost]]"
    for key, value in cost.to_json().items():
        if key == "from":
            yield f"from = {value}"
        else:
            yield f"{key} = {_text(value) if isinstance(value, str) else value}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(value: str) -> str:
    # If TOML's literal quotes cannot hold the text, its special characters are escaped.
    is_plain = "'''" not in value and "\r" not in value and not value.endswith("'")
    return f"'''\n{value}'''" if is_plain else _text(value)
