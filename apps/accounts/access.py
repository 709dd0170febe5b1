"""Access checks that fetch an object and authorise the caller.

A caller without access to the organisation gets a 404; a caller without the required role gets a 403.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import FieldError, ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase

from apps.accounts.models import ApiToken, Membership, Organisation, User
from apps.accounts.roles import ANY_ROLE, Role, Scope

CURRENT_ORGANISATION = "organisation_id"  # the session's key

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Principal:
    """The caller: a signed-in person, or an API token that acts for a person.

    `memberships` maps organisations to the caller's role. A token has access to one organisation only.
    """

    user: User
    memberships: dict[UUID, Role]
    current: UUID | None
    scopes: frozenset[Scope] | None = None  # None: a person in the browser, limited by role alone
    token: ApiToken | None = None

    @property
    def is_platform_admin(self) -> bool:
        """True if the caller is a platform administrator. A token also needs the scope `admin`."""
        return self.user.is_platform_admin and (self.scopes is None or Scope.ADMIN in self.scopes)


def principal_of_user(user: User, wanted: str | None) -> Principal:
    """Return the principal for a signed-in person. `wanted` is the id of the organisation stored in the session."""
    rows = Membership.objects.filter(user=user).order_by("created_at", "id").values_list("organisation_id", "role")
    memberships = {organisation: Role(role) for organisation, role in rows}
    current = next((key for key in memberships if str(key) == wanted), next(iter(memberships), None))
    return Principal(user=user, memberships=memberships, current=current)


def principal_get(request: HttpRequest) -> Principal:
    """Return the principal of an API call or page request. Raises PermissionDenied if the request is anonymous."""
    known = getattr(request, "auth", None) or getattr(request, "_principal", None)
    if isinstance(known, Principal):
        return known
    user = request.user
    if isinstance(user, AnonymousUser) or not isinstance(user, User):
        raise PermissionDenied("Sign in first.")
    principal = principal_of_user(user, request.session.get(CURRENT_ORGANISATION))
    request._principal = principal  # type: ignore[attr-defined]  # remembered for this request only
    return principal


def role_check(principal: Principal, organisation_id: UUID, roles: frozenset[Role]) -> None:
    """Raise Http404 if the caller is not a member, or PermissionDenied if the caller has none of `roles`."""
    role = principal.memberships.get(organisation_id)
    if role is None:
        raise Http404
    if role not in roles:
        wanted = ", ".join(sorted(known.label.lower() for known in roles))
        raise PermissionDenied(
            f"Your role is {role.label.lower()}, but this action requires one of these roles: {wanted}."
        )


def organisation_get(request: HttpRequest, *, roles: frozenset[Role] = ANY_ROLE) -> Organisation:
    """Return the caller's current organisation. Raises PermissionDenied if the caller has none of `roles`."""
    principal = principal_get(request)
    if principal.current is None:
        raise Http404
    role_check(principal, principal.current, roles)
    return Organisation.objects.get(pk=principal.current)


def org_object_get(
    request: HttpRequest, source: type[M] | QuerySet[M], *, roles: frozenset[Role] = ANY_ROLE, **lookup: Any
) -> M:
    """Return one object of an organisation in which the caller has one of `roles`.

    A model's `organisation_path` is the lookup path to its organisation (default: "organisation"). Raises Http404 if
    the object is missing or the caller is not a member, and PermissionDenied if the caller has none of `roles`.
    """
    queryset: QuerySet[M] = source if isinstance(source, QuerySet) else source._default_manager.all()
    path = getattr(queryset.model, "organisation_path", "organisation")
    principal = principal_get(request)
    try:
        found = queryset.filter(**{f"{path}__in": list(principal.memberships)}).get(**lookup)
        owner = queryset.model._default_manager.values_list(path, flat=True).get(pk=found.pk)
    except (ObjectDoesNotExist, ValidationError, ValueError):
        raise Http404 from None
    except FieldError as error:
        raise TypeError(f"{queryset.model.__name__} needs organisation_path: {error}") from error
    role_check(principal, owner, roles)
    return found


def platform_admin_check(request: HttpRequest) -> Principal:
    """Return the principal of a platform administrator. Raises Http404 for everyone else, to hide the page."""
    principal = principal_get(request)
    if not principal.is_platform_admin:
        raise Http404
    return principal


View = Callable[..., HttpResponseBase]


def platform_admin_required(view: View) -> View:
    """Restrict a page to platform administrators."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        platform_admin_check(request)
        return view(request, *args, **kwargs)

    return guarded
