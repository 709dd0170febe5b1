"""People, organisations, roles, tokens, and the audit log."""

from __future__ import annotations

import re
import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone

from apps.accounts.roles import ROLE_TEXTS, Role, Scope
from apps.figures import instant_format

# How the details of an audit entry state an instant, and an amount with the zeros that the database adds.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)")
_LONG_AMOUNT = re.compile(r"-?\d+\.\d{6,}")


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> User:
        """Return the user with this e-mail address, ignoring case."""
        return self.get(email__iexact=username or "")


class User(AbstractBaseUser):
    """A person. People sign in with an e-mail address and may belong to several organisations."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    email = models.EmailField(max_length=254, unique=True)  # in lower case, so that it is one person whatever its case
    name = models.CharField(max_length=120)
    is_active = models.BooleanField(default=True)
    is_platform_admin = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["name"]

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(email=Lower("email")), name="user_email_lower_case"),
        ]

    def __str__(self) -> str:
        return self.email


class Organisation(models.Model):
    """A customer. Every upload, purchase and job belongs to exactly one organisation."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=60, unique=True)
    time_zone = models.CharField(max_length=60, default="UTC")
    created_at = models.DateTimeField(default=timezone.now)
    # Everything dated before this instant was generated for a demonstration: no worker ran it and nobody pays for it.
    sample_until = models.DateTimeField(null=True, blank=True)

    organisation_path: ClassVar[str] = "pk"

    def __str__(self) -> str:
        return self.name

    def is_sample_at(self, instant: datetime) -> bool:
        """Return whether an object dated `instant` is sample data."""
        return self.sample_until is not None and instant < self.sample_until

    def file_mark(self, start: datetime) -> str:
        """Return the file-name suffix "-sample-data" if `start` is in the sample data; otherwise ""."""
        return "-sample-data" if self.is_sample_at(start) else ""


class Membership(models.Model):
    """A person's role in an organisation."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="memberships")
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "organisation"], name="membership_once"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role}"


class Invitation(models.Model):
    """An invitation to join an organisation, open to the person with the invited address.

    Only the digest of the link's token is stored.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="invitations")
    email = models.EmailField(max_length=254)
    role = models.CharField(max_length=10, choices=Role)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="invitation_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.email} {self.role}"

    @property
    def role_text(self) -> str:
        """The role in a sentence, such as "an engineer"."""
        return ROLE_TEXTS[Role(self.role)]

    def is_open(self, *, now: datetime) -> bool:
        """Return whether the invitation is unused, not revoked and not expired."""
        return self.accepted_at is None and self.revoked_at is None and now < self.expires_at


class ApiToken(models.Model):
    """An API token, stored as a public prefix and the SHA-256 digest of the whole token.

    A token without an organisation belongs to a platform administrator and has only the scope `admin`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, null=True, related_name="tokens")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=10, choices=Scope))
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}...)"

    def is_valid(self, *, now: datetime) -> bool:
        """Return whether the token is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class AuditEntry(models.Model):
    """One action of a person or a token. A trigger rejects UPDATE and DELETE."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, null=True, related_name="audit_entries")
    actor = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, null=True, related_name="+")
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=120, blank=True)
    detail = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["organisation", "-id"], name="audit_of_organisation")]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.action} {self.subject}"

    @property
    def detail_text(self) -> str:
        """Return the details as text, such as "scopes: build, read"."""
        return "; ".join(f"{name}: {_detail(value)}" for name, value in self.detail.items())


def _detail(value: Any) -> str:
    """An instant to the second, and an amount without the zeros behind its digits; anything else as it is."""
    if isinstance(value, list):
        return ", ".join(map(_detail, value))
    text = str(value)
    if _LONG_AMOUNT.fullmatch(text):
        return text.rstrip("0").rstrip(".")
    return instant_format(datetime.fromisoformat(text), seconds=True) if _INSTANT.fullmatch(text) else text


class IdempotencyRecord(models.Model):
    """The stored response to a request with an Idempotency-Key."""

    id = models.BigAutoField(primary_key=True)
    owner = models.CharField(max_length=80)
    key = models.CharField(max_length=120)
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.BinaryField(default=bytes)
    content_type = models.CharField(max_length=80, default="")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="idempotency_key_once")]

    def __str__(self) -> str:
        return f"{self.owner} {self.key}"


class Mail(models.Model):
    """An e-mail that is waiting to be sent. Sent e-mails are deleted, because they contain secrets."""

    id = models.BigAutoField(primary_key=True)
    to = models.EmailField(max_length=254)
    subject = models.CharField(max_length=200)
    text = models.TextField()
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(db_index=True)
    attempts = models.PositiveSmallIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.subject} to {self.to}"


class NumberKind(models.TextChoices):
    """The kinds of objects that have numbers."""

    QUOTE = "quote", "Quote"
    CONTRACT = "contract", "Contract"
    JOB = "job", "Job"


class Counter(models.Model):
    """The last number given to an object of one kind in an organisation."""

    id = models.BigAutoField(primary_key=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=10, choices=NumberKind)
    last = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["organisation", "kind"], name="counter_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.last}"
