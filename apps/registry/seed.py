"""The sample models of the demo organisation."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.models import Organisation, User
from apps.registry import selectors
from apps.registry.services import sample_add


def seed(*, now: datetime, organisation: Organisation, owner: User, admin: User) -> None:
    """Add the sample models, unless the organisation already has a model."""
    if organisation.models.exists():
        return
    for sample in selectors.SAMPLES:
        sample_add(organisation=organisation, actor=owner, slug=sample.slug, now=now)
