"""Reserve the operations of a quota for jobs."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.sales.models import Contract, ContractLine, ContractQuota
from apps.sales.quota_caps import draw_amount, project_cap_check
from apps.sales.selectors import draw_operations
from apps.sales.snapshots import ProgramSnapshot, project_uuid, snapshot_of


def line_lock(contract: Contract, program_digest: str) -> ContractLine:
    """Lock and return the line of a program. Raises Problem(409) if the contract has no such line."""
    line = contract.lines.select_for_update().filter(program_digest=program_digest).first()
    if line is None:
        raise Problem(
            409,
            "Not in the contract",
            f"Program {program_digest[:12]} is not part of this contract.",
            kind="not-in-contract",
        )
    return line


def quota_draw(
    *, contract: Contract, program_digest: str, count: int, program: Program | None, now: datetime
) -> ContractLine:
    """Reserve operations of a quota for a job.

    The caller must hold the locks of the organisation and the contract. Raises Problem if too few operations are left.
    Raises CapReached if the project's spend cap is too low.
    """
    quota = ContractQuota.objects.select_for_update().get(contract=contract)
    line = contract.lines.select_for_update().filter(program_digest=program_digest).first()
    if line is None:
        line = _line_open(contract, quota, line_program(contract, program_digest, program))
    needed = draw_operations(contract, _snapshot(line)) * count
    if needed > quota.left:
        raise Problem(
            409,
            "Quota used up",
            f"{count:,} items need {needed:,} operations, and the quota has {quota.left:,} of {int(quota.operations):,} left. "
            "Submit fewer items, or accept another quote.",
            kind="volume-used-up",
        )
    project = project_uuid(_snapshot(line))
    if project is not None:
        project_cap_check(
            organisation_id=contract.organisation_id,
            project_id=project,
            currency=contract.currency,
            now=now,
            amount=draw_amount(contract, line.facts or {}, count),
        )
    quota.taken += needed
    quota.save(update_fields=["taken"])
    line.taken += count
    line.save(update_fields=["taken"])
    return line


def _snapshot(line: ContractLine) -> ProgramSnapshot:
    if line.facts is None:
        raise ValueError(f"line {line.number} of contract {line.contract_id} draws from no quota")
    return ProgramSnapshot.from_json(line.facts)


def quota_return(*, contract: Contract, line: ContractLine, count: int) -> None:
    """Release operations of a quota that were reserved for a job but not used."""
    quota = ContractQuota.objects.select_for_update().get(contract=contract)
    quota.taken -= draw_operations(contract, _snapshot(line)) * count
    quota.save(update_fields=["taken"])


def line_program(contract: Contract, program_digest: str, program: Program | None) -> Program:
    """Return the program that draws from the quota. Raises Problem(409) if the organisation has no such program."""
    if program is None:
        program = Program.objects.filter(organisation_id=contract.organisation_id, digest=program_digest).first()
    if program is None or program.organisation_id != contract.organisation_id or program.digest != program_digest:
        raise Problem(
            409,
            "Not in the contract",
            f"Program {program_digest[:12]} does not belong to this organisation.",
            kind="not-in-contract",
        )
    return program


def _line_open(contract: Contract, quota: ContractQuota, program: Program) -> ContractLine:
    snapshot, processor = snapshot_of(program), contract.pool.processor
    if snapshot.precision != quota.precision or processor is None or processor.digest != snapshot.target_digest:
        raise Problem(
            409,
            "Not in the quota",
            f"The quota is for programs in {quota.precision} on {contract.pool.slug}; {snapshot.model} is compiled in "
            f"{snapshot.precision} for {snapshot.target}.",
            kind="not-in-contract",
        )
    return ContractLine.objects.create(
        contract=contract,
        number=contract.lines.count() + 1,
        program=program,
        program_digest=program.digest,
        facts=snapshot.to_json(),
    )
