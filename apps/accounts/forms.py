"""Forms of the account pages."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from allauth.account.forms import (
    AddEmailForm,
    ChangePasswordForm,
    LoginForm,
    ResetPasswordForm,
    ResetPasswordKeyForm,
    SetPasswordForm,
    SignupForm,
)
from django import forms
from django.contrib.auth import password_validation
from django.contrib.auth.hashers import make_password
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.accounts import services
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Role, Scope


def _plain(form: forms.Form, labels: dict[str, str]) -> None:
    for name, field in form.fields.items():
        field.label = labels.get(name, field.label)
        field.widget.attrs.pop("placeholder", None)


def _new_password(field: forms.Field, label: str) -> None:
    field.label, field.help_text = label, "At least 10 characters."


class SignInForm(LoginForm):
    """The sign-in form: e-mail address and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, {"login": "E-mail address"})
        self.fields["password"].help_text = ""  # the page has the link to a new password


class SignUpForm(SignupForm):
    """The sign-up form: a new person with a new organisation."""

    name = forms.CharField(max_length=120, label="Your name", widget=forms.TextInput(attrs={"autocomplete": "name"}))
    organisation_name = forms.CharField(
        max_length=120, label="Organisation", widget=forms.TextInput(attrs={"autocomplete": "organization"})
    )
    field_order = ("name", "email", "password1", "organisation_name")
    account_already_exists: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, {"email": "E-mail address"})
        _new_password(self.fields["password1"], "Password")

    def try_save(self, request: HttpRequest) -> tuple[User | None, HttpResponse | None]:
        """Create the account. If the address already has an account, send an e-mail to the address instead.

        The response is the same in both cases, so that a stranger cannot find out which addresses have accounts.
        """
        if self.account_already_exists:
            make_password(self.cleaned_data["password1"])
        try:
            return super().try_save(request)  # type: ignore[no-any-return]
        except Problem:  # signed up by another request in this moment
            self.account_already_exists = True
            return super().try_save(request)  # type: ignore[no-any-return]

    def save(self, request: HttpRequest) -> User:
        return services.person_sign_up(
            email=self.cleaned_data["email"],
            name=self.cleaned_data["name"],
            password=self.cleaned_data["password1"],
            organisation_name=self.cleaned_data["organisation_name"],
            now=timezone.now(),
        )


class PasswordChangeForm(ChangePasswordForm):
    """The form to change a password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, {"oldpassword": "Current password", "password2": "New password, again"})
        self.fields["oldpassword"].help_text = ""
        _new_password(self.fields["password1"], "New password")


class PasswordSetForm(SetPasswordForm):
    """The form to set a first password after signing in through an identity provider."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, {"password2": "Password, again"})
        _new_password(self.fields["password1"], "Password")


class PasswordForgottenForm(ResetPasswordForm):
    """The form to request a link to set a new password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, {"email": "E-mail address"})


class PasswordResetForm(ResetPasswordKeyForm):
    """The form to choose a new password after opening a reset link."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, {"password2": "New password, again"})
        _new_password(self.fields["password1"], "New password")


class EmailChangeForm(AddEmailForm):
    """The form to change the e-mail address. The new address must be confirmed through a mailed link."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, {"email": "New e-mail address"})


class InvitedForm(forms.Form):
    """The sign-up form for an invited person."""

    name = forms.CharField(max_length=120, label="Your name", widget=forms.TextInput(attrs={"autocomplete": "name"}))
    password = forms.CharField(
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least 10 characters.",
    )

    def clean(self) -> dict[str, object]:
        password = self.cleaned_data.get("password")
        if password:
            try:
                password_validation.validate_password(password, User(name=self.cleaned_data.get("name", "")))
            except forms.ValidationError as error:
                self.add_error("password", error)
        return self.cleaned_data


class NameForm(forms.Form):
    """The form to change a person's name."""

    name = forms.CharField(max_length=120, label="Your name", widget=forms.TextInput(attrs={"autocomplete": "name"}))


class AccountDeleteForm(forms.Form):
    """The form to delete an account. The person confirms by entering the account's e-mail address."""

    email = forms.EmailField(label="Your e-mail address", help_text="Type your e-mail address to confirm.")

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user

    def clean_email(self) -> str:
        if self.cleaned_data["email"].lower() != self.user.email:
            raise forms.ValidationError("This is not the address of your account.")
        return self.user.email


class OrganisationForm(forms.Form):
    """The form for an organisation's name and time zone."""

    name = forms.CharField(max_length=120)
    time_zone = forms.ChoiceField(choices=[(zone, zone) for zone in sorted(available_timezones())])


class OrganisationNewForm(forms.Form):
    """The form to create another organisation."""

    name = forms.CharField(max_length=120, label="Name of the organisation")


class InvitationForm(forms.Form):
    """The form to invite a person, with e-mail address and role."""

    email = forms.EmailField(max_length=254, label="E-mail address")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.ENGINEER)


class RoleForm(forms.Form):
    """The form to change a member's role."""

    role = forms.ChoiceField(choices=Role.choices)


class TokenForm(forms.Form):
    """The form for a new API token, with name, scopes and lifetime."""

    name = forms.CharField(max_length=80, help_text="Where you will use the token, for example a build server.")
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
