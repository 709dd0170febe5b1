"""Custom processors, which organisations upload as files.

Organisations can compile for a custom processor, although no pool offers the processor.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.compilation.models import OwnProcessor
from apps.fleet.selectors import processors_offered
from compiler import ModelError, targets
from compiler.targets.catalogue import LARGEST

PROCESSORS_MAX = 20


@transaction.atomic
def processor_add(*, organisation: Organisation, data: bytes, actor: User, now: datetime) -> OwnProcessor:
    """Store a processor's file, replacing any earlier file with the same name.

    Raises Problem(422) with all faults if the file is not valid, or if the name belongs to a processor that everybody can use.
    """
    if len(data) > LARGEST:
        raise Problem(
            413, "File too large", f"A processor file can have at most {LARGEST:,} bytes.", kind="file-too-large"
        )
    try:
        text = data.decode("utf-8")
        target = targets.parse(text)
    except UnicodeDecodeError:
        raise Problem(
            422, "Not a processor file", "The file is not UTF-8 text; save it as TOML in UTF-8.", kind="processor-file"
        ) from None
    except ModelError as error:
        faults = [{"message": f"{fault.message}."} for fault in error.problems]
        detail = f"{error.message.rstrip('.')}." if len(faults) < 2 else f"{error.message}. {faults[0]['message']}"
        raise Problem(422, "Not a processor file", detail, kind="processor-file", errors=faults) from error
    ships = target.name in targets.names()
    if ships or target.name in processors_offered():
        where = "ships with the compiler" if ships else "is offered to everybody"
        raise Problem(
            422,
            "Name in use",
            f"{target.name!r} {where}; give yours another name.",
            kind="name-taken",
        )
    others = OwnProcessor.objects.select_for_update().filter(organisation=organisation).exclude(name=target.name)
    if len(others) >= PROCESSORS_MAX:
        raise Problem(
            422,
            "Too many processors",
            f"An organisation can have at most {PROCESSORS_MAX} processors; remove one first.",
            kind="too-many-processors",
        )
    row, _ = OwnProcessor.objects.update_or_create(
        organisation=organisation,
        name=target.name,
        defaults={
            "title": target.title[:200],
            "digest": target.digest,
            "text": text,
            "created_by": actor,
            "created_at": now,
        },
    )
    audit_record(action="processor.add", now=now, actor=actor, organisation=organisation, subject=target.name[:120])
    return row


@transaction.atomic
def processor_remove(*, processor: OwnProcessor, actor: User, now: datetime) -> None:
    """Delete a processor's file. Compiled programs are kept."""
    audit_record(
        action="processor.remove",
        now=now,
        actor=actor,
        organisation=processor.organisation,
        subject=processor.name[:120],
    )
    processor.delete()
