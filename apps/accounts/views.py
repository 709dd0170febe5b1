"""The pages about people and tokens.

Each view authorises the caller, makes one service call, and returns the response.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from allauth.account.utils import perform_login
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts import selectors, services
from apps.accounts.access import CURRENT_ORGANISATION, org_object_get, organisation_get, principal_get
from apps.accounts.forms import (
    InvitationForm,
    InvitedForm,
    OrganisationForm,
    OrganisationNewForm,
    RoleForm,
    TokenForm,
)
from apps.accounts.models import ApiToken, Invitation, Membership, Organisation, User
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import OWNING, SCOPES_OF_ROLE, Role, Scope

AUDIT_PAGE = 50


@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """The page behind an invitation link. A signed-in person joins the organisation; anyone else is asked to sign in
    or sign up.
    """
    found = selectors.invitation_by_secret(secret)
    now = timezone.now()
    if found is None or not found.is_open(now=now):
        raise Http404
    person = request.user if isinstance(request.user, User) else None
    known = User.objects.filter(email=found.email).exists()
    form = InvitedForm(request.POST or None) if person is None and not known else None
    if request.method == "POST":
        if person is None and form is not None and form.is_valid():
            person = services.user_create(
                email=found.email,
                name=form.cleaned_data["name"],
                password=form.cleaned_data["password"],
                now=now,
                is_confirmed=True,
            )
            perform_login(request, person)
        if person is not None:
            membership = services.invitation_accept(invitation=found, user=person, now=now)
            request.session[CURRENT_ORGANISATION] = str(membership.organisation_id)
            return redirect("/")
    context = {"invitation": found, "form": form, "known": known, "here": request.path}
    return render(request, "accounts/invitation.html", context)


@require_http_methods(["GET", "POST"])
def organisation(request: HttpRequest) -> HttpResponse:
    """The page of members, invitations and the organisation's settings."""
    current = organisation_get(request)
    principal = principal_get(request)
    if request.method == "POST":
        current = organisation_get(request, roles=OWNING)
        form = OrganisationForm(request.POST)
        if form.is_valid():
            services.organisation_update(
                organisation=current,
                name=form.cleaned_data["name"],
                time_zone=form.cleaned_data["time_zone"],
                principal=principal,
                now=timezone.now(),
            )
            messages.success(request, "Saved.")
            return redirect("accounts:organisation")
    else:
        form = _settings_of(current)
    return _organisation_page(request, current, form, InvitationForm())


def _settings_of(current: Organisation) -> OrganisationForm:
    return OrganisationForm(initial={"name": current.name, "time_zone": current.time_zone})


def _organisation_page(
    request: HttpRequest,
    current: Organisation,
    form: OrganisationForm,
    invitation_form: InvitationForm,
) -> HttpResponse:
    context = {
        "form": form,
        "invitation_form": invitation_form,
        "members": selectors.members_list(current),
        "invitations": selectors.invitations_open(current),
        "roles": Role.choices,
        "is_owner": principal_get(request).memberships[current.pk] == Role.OWNER,
    }
    status = 422 if form.errors or invitation_form.errors else 200
    return render(request, "accounts/organisation.html", context, status=status)


@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    """Send an invitation."""
    current = organisation_get(request, roles=OWNING)
    form = InvitationForm(request.POST)
    if form.is_valid():
        try:
            services.invitation_create(
                organisation=current,
                email=form.cleaned_data["email"],
                role=Role(form.cleaned_data["role"]),
                principal=principal_get(request),
                now=timezone.now(),
            )
        except Problem as problem:
            form.add_error("email", problem.detail)
        else:
            messages.success(request, f"The invitation is on its way to {form.cleaned_data['email']}.")
            return redirect("accounts:organisation")
    return _organisation_page(request, current, _settings_of(current), form)


@require_POST
def invitation_revoke(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Withdraw an invitation."""
    found = org_object_get(request, Invitation, roles=OWNING, pk=pk)
    services.invitation_revoke(invitation=found, principal=principal_get(request), now=timezone.now())
    return redirect("accounts:organisation")


@require_POST
def member_role(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Change a member's role."""
    found = org_object_get(request, Membership, roles=OWNING, pk=pk)
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise Problem(422, "Unknown role", "Choose one of the roles in the list.", kind="role-unknown")
    role = Role(form.cleaned_data["role"])
    services.membership_role_set(membership=found, role=role, principal=principal_get(request), now=timezone.now())
    return redirect("accounts:organisation")


@require_POST
def member_remove(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Remove a member from the organisation."""
    found = org_object_get(request, Membership, roles=OWNING, pk=pk)
    services.membership_remove(membership=found, principal=principal_get(request), now=timezone.now())
    return redirect("accounts:organisation")


@require_http_methods(["GET", "POST"])
def organisation_new(request: HttpRequest) -> HttpResponse:
    """Create another organisation and switch to it."""
    form = OrganisationNewForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        made = services.organisation_create(
            name=form.cleaned_data["name"], owner=principal_get(request).user, now=timezone.now()
        )
        request.session[CURRENT_ORGANISATION] = str(made.pk)
        return redirect("/")
    return render(request, "accounts/organisation_new.html", {"form": form}, status=422 if form.errors else 200)


@require_POST
def organisation_switch(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Switch to another of the person's organisations."""
    chosen = org_object_get(request, Organisation, pk=pk)
    request.session[CURRENT_ORGANISATION] = str(chosen.pk)
    return redirect("/")


@never_cache
@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """The page of the organisation's API tokens. The secret of a new token is shown only once."""
    current = organisation_get(request)
    principal = principal_get(request)
    allowed = SCOPES_OF_ROLE[principal.memberships[current.pk]]
    form = TokenForm(request.POST or None, allowed=allowed)
    secret = ""
    if request.method == "POST" and form.is_valid():
        now = timezone.now()
        days = form.cleaned_data["days"]
        _, secret = services.token_create(
            user=principal.user,
            organisation=current,
            name=form.cleaned_data["name"],
            scopes=[Scope(scope) for scope in form.cleaned_data["scopes"]],
            now=now,
            expires_at=now + timedelta(days=days) if days else None,
        )
        form = TokenForm(allowed=allowed)
    context = {"form": form, "tokens": selectors.tokens_list(current), "secret": secret, "now": timezone.now()}
    return render(request, "accounts/tokens.html", context, status=422 if form.errors else 200)


@require_POST
def token_revoke(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Revoke a token. Only owners can revoke the tokens of other members."""
    principal = principal_get(request)
    found = org_object_get(request, ApiToken, pk=pk)
    if found.user_id != principal.user.pk:
        found = org_object_get(request, ApiToken, roles=OWNING, pk=pk)
    services.token_revoke(token=found, principal=principal, now=timezone.now())
    return redirect("accounts:tokens")


@require_GET
def audit(request: HttpRequest) -> HttpResponse:
    """The page of the audit log, newest first."""
    current = organisation_get(request, roles=OWNING)
    page = page_of(request, selectors.audit_list(current), ordering=("-id",), size=AUDIT_PAGE)
    return render(request, "accounts/audit.html", {"page": page})
