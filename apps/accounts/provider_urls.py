"""URLs for sign-in through an identity provider, mounted only if OIDC_SERVER is set."""

from __future__ import annotations

from allauth.socialaccount import views as social
from allauth.socialaccount.providers.openid_connect import views as oidc
from django.urls import URLPattern, URLResolver, path

from apps.accounts import guards
from apps.accounts.pages import shown
from apps.accounts.rates import limited

urlpatterns: list[URLPattern | URLResolver] = [
    path(
        "sign-in/with/cancelled",
        shown(social.LoginCancelledView, "provider_cancelled"),
        name="socialaccount_login_cancelled",
    ),
    path("sign-in/with/failed", shown(social.LoginErrorView, "provider_failed"), name="socialaccount_login_error"),
    path("sign-in/with/<str:provider_id>", limited(guards.SIGN_IN)(oidc.login), name="openid_connect_login"),
    path("sign-in/with/<str:provider_id>/back", oidc.callback, name="openid_connect_callback"),
    path(
        "sign-up/with",
        limited(guards.SIGN_UP)(shown(social.SignupView, "provider_sign_up")),
        name="socialaccount_signup",
    ),
    path("settings/provider", shown(social.ConnectionsView, "provider"), name="socialaccount_connections"),
]
