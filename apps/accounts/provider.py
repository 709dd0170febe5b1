"""Sign-in through an identity provider (OpenID Connect), which is available only if OIDC_SERVER is set."""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.http import HttpRequest

from apps.accounts.models import User


class ProviderAdapter(DefaultSocialAccountAdapter):
    """The django-allauth adapter that takes a person's name from the identity provider."""

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> User:
        user: User = super().populate_user(request, sociallogin, data)
        named = data.get("name") or " ".join(filter(None, (data.get("first_name"), data.get("last_name"))))
        user.email = user.email.lower()
        user.name = str(named or user.email.partition("@")[0])[:120]
        return user
