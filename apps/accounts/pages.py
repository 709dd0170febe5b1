"""Pages about a person's own account.

Each view makes one service call.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows.email_verification import send_verification_email_at_login
from allauth.account.internal.stagekit import unstash_login
from allauth.account.models import get_emailconfirmation_model
from allauth.account.views import ConfirmEmailView, EmailVerificationSentView
from allauth.usersessions.models import UserSession
from allauth.usersessions.views import ListUserSessionsView
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST
from django.views.generic.base import TemplateResponseMixin

from apps.accounts import selectors, services
from apps.accounts.access import CURRENT_ORGANISATION, organisation_get, principal_get
from apps.accounts.forms import AccountDeleteForm, NameForm
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.rates import View


def shown(view: type[TemplateResponseMixin], template: str) -> View:
    """Return a django-allauth page with our template."""
    made: View = view.as_view(template_name=f"accounts/{template}.html")  # type: ignore[attr-defined]
    return made


def person_signing_in(request: HttpRequest) -> User | None:
    """Return the person whose sign-in in this browser is not finished; None if there is no such person."""
    login = unstash_login(request, peek=True)
    return login.user if login else None


class ConfirmEmail(ConfirmEmailView):
    """The page behind a confirmation link.

    A browser that did not request the link shows a button first, because mail scanners open links.
    """

    template_name = "accounts/email_confirm.html"

    def get(self, *args: Any, **kwargs: Any) -> HttpResponse:
        found = get_emailconfirmation_model().from_key(self.kwargs["key"])
        if found is not None and found.email_address.user_id == self._asked():
            return self.post(*args, **kwargs)
        return super().get(*args, **kwargs)  # type: ignore[no-any-return]

    def post(self, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            with transaction.atomic():
                return super().post(*args, **kwargs)  # type: ignore[no-any-return]
        except IntegrityError:
            raise Problem(
                409,
                "Address in use",
                "This address cannot be confirmed for your account. Choose another one.",
                kind="address-not-confirmed",
            ) from None

    def _asked(self) -> UUID | None:
        person = self.request.user if isinstance(self.request.user, User) else person_signing_in(self.request)
        return person.pk if person else None


class EmailSent(EmailVerificationSentView):
    """The page after every sign-up, which says that a link was mailed and can send the link again."""

    template_name = "accounts/email_sent.html"

    def post(self, request: HttpRequest) -> HttpResponse:
        login = unstash_login(request, peek=True)
        if login is None:
            return redirect("account_login")
        send_verification_email_at_login(request, login)
        messages.success(request, "A link is on its way to you.")
        return redirect("account_email_verification_sent")


class Sessions(ListUserSessionsView):
    """The page of the person's sessions, where the person can end sessions."""

    template_name = "accounts/sessions.html"

    def form_valid(self, form: Any) -> HttpResponse:
        services.sessions_ended_record(principal=principal_get(self.request), now=timezone.now())
        return super().form_valid(form)  # type: ignore[no-any-return]


@require_POST
def session_end(request: HttpRequest, pk: int) -> HttpResponse:
    """End one of the person's sessions."""
    found = UserSession.objects.filter(user=principal_get(request).user, pk=pk).first()
    if found is None:
        raise Http404
    services.session_end(session=found, principal=principal_get(request), now=timezone.now())
    return redirect("usersessions_list")


@require_http_methods(["GET", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """The page of the person's account."""
    person = principal_get(request).user
    form = NameForm(request.POST or None, initial={"name": person.name})
    if request.method == "POST" and form.is_valid():
        services.person_rename(user=person, name=form.cleaned_data["name"])
        messages.success(request, "Saved.")
        return redirect("accounts:account")
    context = {"form": form, "factors": selectors.factors_of(person), "provider": settings.OIDC_SERVER != "none"}
    return render(request, "accounts/account.html", context, status=422 if form.errors else 200)


@reauthentication_required(app="allauth.account")
@require_http_methods(["GET", "POST"])
def account_delete(request: HttpRequest) -> HttpResponse:
    """Delete the person's own account."""
    person = principal_get(request).user
    form = AccountDeleteForm(request.POST or None, user=person)
    if request.method == "POST" and form.is_valid():
        services.person_delete(user=person, now=timezone.now())
        logout(request)
        messages.success(request, "Your account has been deleted.")
        return redirect("account_login")
    return render(request, "accounts/account_delete.html", {"form": form}, status=422 if form.errors else 200)


@require_POST
def organisation_leave(request: HttpRequest) -> HttpResponse:
    """Leave the current organisation."""
    current = organisation_get(request)
    services.membership_leave(organisation=current, user=principal_get(request).user, now=timezone.now())
    request.session.pop(CURRENT_ORGANISATION, None)
    messages.success(request, f"You have left {current.name}.")
    return redirect("/")
