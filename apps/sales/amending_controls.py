"""Where the controls of an amendment begin: with what its contract has left."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from apps.accounts.problems import Problem
from apps.sales.builder import UNITS, Subject
from apps.sales.models import Contract, FormName
from apps.sales.selectors import contract_usage
from apps.sales.volumes import Form

TERA = 10**12


def amending_subject(subject: Subject) -> Subject:
    """The subject of the contract that is amended: its plan, its quota, or its one program."""
    contract = subject.amends
    assert contract is not None
    if contract.plan_id is not None:
        return replace(subject, plan_id=contract.plan_id)
    if contract.form == FormName.QUOTA:
        return replace(subject, is_quota=True)
    lines = list(contract.lines.select_related("program__model_version__model__project"))
    if len(lines) != 1:
        raise Problem(
            409,
            "Several programs",
            "This contract holds several programs; amend it over the API (`amends` of POST /api/v1/quotes).",
            kind="form",
        )
    return replace(subject, program=lines[0].program)


def amending_controls(contract: Contract) -> dict[str, Any]:
    """The controls as they would have made the rest of the contract; a volume of nothing left begins at 1."""
    unused = contract_usage(contract).lines[0].unused
    is_quota = contract.form == FormName.QUOTA
    form = Form.from_json(contract.terms.get("form"))
    schedule = contract.terms["lines"][0]["rating"]["terms"].get("schedule")
    volume = -(-unused // TERA) if is_quota else unused
    if form.name == FormName.INTERVAL:
        volume = int(schedule["each"])
    return {
        "volume": max(volume, 1),
        "klass": contract.klass,
        "pool": contract.pool.slug,
        "end": contract.ends_at.isoformat(),
        **({"form": str(form.name), **_length(form.every)} if form.every is not None else {}),
        **({"precision": contract.quota.precision} if is_quota else {}),
    }


def _length(seconds: Fraction) -> dict[str, str]:
    """A length as the page's box and list hold it: in the largest unit of which it is a whole number."""
    for unit, size in reversed(UNITS.items()):
        if (seconds / size).denominator == 1:
            return {"every": str(seconds / size), "unit": unit}
    return {}
