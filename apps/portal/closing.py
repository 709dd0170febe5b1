"""The page on which an owner deletes the organisation."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from apps.accounts.access import CURRENT_ORGANISATION, organisation_get, principal_get
from apps.accounts.roles import OWNING
from apps.portal.deletion import open_business, organisation_delete


class DeleteForm(forms.Form):
    """A form to confirm the deletion by typing the organisation's name."""

    name = forms.CharField(label="Organisation name", help_text="Type the name to confirm.")

    def __init__(self, *args: Any, expected: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = expected

    def clean_name(self) -> str:
        if str(self.cleaned_data["name"]).strip() != self.expected:
            raise forms.ValidationError(f"Type the name exactly: {self.expected}")
        return self.expected


@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest) -> HttpResponse:
    """Show the confirmation form, or the reasons why the organisation can't be deleted. A valid POST deletes it."""
    current, now = organisation_get(request, roles=OWNING), timezone.now()
    form = DeleteForm(request.POST or None, expected=current.name)
    if request.method == "POST" and form.is_valid():
        organisation_delete(organisation=current, principal=principal_get(request), now=now)
        request.session.pop(CURRENT_ORGANISATION, None)
        messages.success(request, f"{current.name} has been deleted.")
        return redirect("/")
    context = {"form": form, "obstacles": open_business(current, now=now), "current": current}
    return render(request, "portal/organisation_delete.html", context, status=422 if form.errors else 200)
