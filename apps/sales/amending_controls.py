"""The initial controls of an amendment, for the unused remainder of the contract."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from apps.sales.builder import UNITS, Subject, volume_name
from apps.sales.models import FormName
from apps.sales.selectors import contract_usage
from apps.sales.volumes import Form

TERA = 10**12


def amending_subject(subject: Subject) -> Subject:
    """Return the subject of an amendment: the contract's plan, quota or programs."""
    contract = subject.amends
    assert contract is not None
    if contract.plan_id is not None:
        return replace(subject, plan_id=contract.plan_id)
    if contract.form == FormName.QUOTA:
        return replace(subject, is_quota=True)
    lines = contract.lines.select_related("program__model_version__model__project")
    known = {line.program.digest: line.program for line in lines if line.program is not None}
    programs = tuple(known[line["program"]["digest"]] for line in contract.terms["lines"])
    return replace(subject, program=programs[0]) if len(programs) == 1 else replace(subject, several=programs)


def amending_controls(subject: Subject) -> dict[str, Any]:
    """Return the controls for the unused remainder of the contract."""
    contract = subject.amends
    assert contract is not None
    is_quota = contract.form == FormName.QUOTA
    form = Form.from_json(contract.terms.get("form"))
    lefts = {line.program_digest: line.unused for line in contract_usage(contract).lines}
    if form.name == FormName.INTERVAL:
        terms = {line["program"]["digest"]: line["rating"]["terms"] for line in contract.terms["lines"]}
        lefts = {digest: int(terms[digest]["schedule"]["each"]) for digest in lefts}
    left = next(iter(lefts.values()))
    volume = -(-left // TERA) if is_quota else left
    return {
        "volume": max(volume, 1),
        **{volume_name(one): lefts.get(one.digest, 0) for one in subject.several},
        "klass": contract.klass,
        "pool": contract.pool.slug,
        "end": contract.ends_at.isoformat(),
        **({"form": str(form.name), **_length(form.every)} if form.every is not None else {}),
        **({"precision": contract.quota.precision} if is_quota else {}),
    }


def _length(seconds: Fraction) -> dict[str, str]:
    for unit, size in reversed(UNITS.items()):
        if (seconds / size).denominator == 1:
            return {"every": str(seconds / size), "unit": unit}
    return {}
