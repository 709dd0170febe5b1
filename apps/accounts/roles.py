"""Roles and scopes. A role belongs to a membership, a scope to an API token."""

from __future__ import annotations

from django.db import models


class Role(models.TextChoices):
    """A person's role in an organisation, which decides what the person may do there."""

    OWNER = "owner", "Owner"
    ENGINEER = "engineer", "Engineer"
    BILLING = "billing", "Billing"
    VIEWER = "viewer", "Viewer"


# "has invited you to join ... as <text>"
ROLE_TEXTS = {
    Role.OWNER: "an owner",
    Role.ENGINEER: "an engineer",
    Role.BILLING: "a billing manager",
    Role.VIEWER: "a viewer",
}


class Scope(models.TextChoices):
    """A scope of an API token. A token may never do more than its creator."""

    READ = "read", "Read everything in the organisation"
    BUILD = "build", "Upload models, compile, plan and request quotes"
    RUN = "run", "Submit jobs"
    BUY = "buy", "Accept quotes"
    BILLING = "billing", "Invoices, budgets, payments"
    ADMIN = "admin", "Administer the platform"


ANY_ROLE: frozenset[Role] = frozenset(Role)
ENGINEERING: frozenset[Role] = frozenset({Role.OWNER, Role.ENGINEER})
BUYING: frozenset[Role] = frozenset({Role.OWNER, Role.ENGINEER, Role.BILLING})
MONEY: frozenset[Role] = frozenset({Role.OWNER, Role.BILLING})
OWNING: frozenset[Role] = frozenset({Role.OWNER})

SCOPES_OF_ROLE: dict[Role, frozenset[Scope]] = {
    Role.OWNER: frozenset({Scope.READ, Scope.BUILD, Scope.RUN, Scope.BUY, Scope.BILLING}),
    Role.ENGINEER: frozenset({Scope.READ, Scope.BUILD, Scope.RUN, Scope.BUY}),
    Role.BILLING: frozenset({Scope.READ, Scope.BUY, Scope.BILLING}),
    Role.VIEWER: frozenset({Scope.READ}),
}
