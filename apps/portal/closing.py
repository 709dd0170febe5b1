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
    """The name once more, so that no single click deletes an organisation."""

    name = forms.CharField(label="Name of the organisation", help_text="Type it to confirm.")

    def __init__(self, *args: Any, wanted: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wanted = wanted

    def clean_name(self) -> str:
        if str(self.cleaned_data["name"]).strip() != self.wanted:
            raise forms.ValidationError("This is not its name.")
        return self.wanted


@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest) -> HttpResponse:
    """What is still open, or the form."""
    current, now = organisation_get(request, roles=OWNING), timezone.now()
    form = DeleteForm(request.POST or None, wanted=current.name)
    if request.method == "POST" and form.is_valid():
        organisation_delete(organisation=current, principal=principal_get(request), now=now)
        request.session.pop(CURRENT_ORGANISATION, None)
        messages.success(request, f"{current.name} is deleted.")
        return redirect("/")
    context = {"form": form, "found": open_business(current, now=now), "current": current}
    return render(request, "portal/organisation_delete.html", context, status=422 if form.errors else 200)
