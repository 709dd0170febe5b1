"""Forms of the people's pages."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.contrib.auth import password_validation
from django.contrib.auth.forms import AuthenticationForm

from apps.accounts.models import User
from apps.accounts.roles import Role, Scope


class SignInForm(AuthenticationForm):
    """The address counts in lower case, so that a lock-out cannot be escaped by its spelling."""

    error_messages = {
        "invalid_login": "That address and password do not go together.",
        "inactive": "This account is closed.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "E-mail address"

    def clean_username(self) -> str:
        return str(self.cleaned_data["username"]).strip().lower()


class PasswordField(forms.CharField):
    """A new password, checked by the project's rules."""

    def __init__(self) -> None:
        super().__init__(
            strip=False,
            widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
            help_text="At least 10 characters.",
        )


class NewPersonForm(forms.Form):
    """Name, address and password of somebody new."""

    name = forms.CharField(max_length=120, label="Your name", widget=forms.TextInput(attrs={"autocomplete": "name"}))
    email = forms.EmailField(
        max_length=254, label="E-mail address", widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )
    password = PasswordField()

    def clean_email(self) -> str:
        return str(self.cleaned_data["email"]).lower()

    def clean(self) -> dict[str, object]:
        password = self.cleaned_data.get("password")
        if password:
            person = User(email=self.cleaned_data.get("email", ""), name=self.cleaned_data.get("name", ""))
            try:
                password_validation.validate_password(password, person)
            except forms.ValidationError as error:
                self.add_error("password", error)
        return self.cleaned_data


class SignUpForm(NewPersonForm):
    """Somebody new with an organisation of their own."""

    organisation_name = forms.CharField(
        max_length=120, label="Organisation", widget=forms.TextInput(attrs={"autocomplete": "organization"})
    )


class InvitedForm(NewPersonForm):
    """Somebody new who follows an invitation: the address is the invited one."""

    email = None  # type: ignore[assignment]  # Django's way to leave out an inherited field

    def clean_email(self) -> str:
        return ""


class OrganisationForm(forms.Form):
    """The organisation's name and the zone of its pages."""

    name = forms.CharField(max_length=120)
    time_zone = forms.ChoiceField(choices=[(zone, zone) for zone in sorted(available_timezones())])


class OrganisationNewForm(forms.Form):
    """One more organisation for somebody who has signed in."""

    name = forms.CharField(max_length=120, label="Name of the organisation")


class InvitationForm(forms.Form):
    """Whom to invite, and as what."""

    email = forms.EmailField(max_length=254, label="E-mail address")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.ENGINEER)


class RoleForm(forms.Form):
    """A member's new role."""

    role = forms.ChoiceField(choices=Role.choices)


class TokenForm(forms.Form):
    """A new token: a name, what it may do, how long."""

    name = forms.CharField(max_length=80, help_text="Where it will be used, such as: build server.")
    scopes = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}))
    days = forms.TypedChoiceField(
        label="Valid for",
        coerce=int,
        choices=[(30, "30 days"), (90, "90 days"), (365, "a year"), (0, "until revoked")],
        initial=90,
    )

    def __init__(self, *args: object, allowed: frozenset[Scope], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        field = self.fields["scopes"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(scope.value, scope.label) for scope in Scope if scope in allowed]
