from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, include, path

from apps.accounts import pages, views
from apps.accounts.mailbox import mailbox

_OURS: list[URLPattern | URLResolver] = [
    path("mail", mailbox, name="mailbox"),
    path("sign-out", LogoutView.as_view(), name="sign_out"),
    path("invitations/<str:secret>", views.invitation, name="invitation"),
    path("settings/account", pages.account, name="account"),
    path("settings/account/delete", pages.account_delete, name="account_delete"),
    path("settings/sessions/<int:pk>/end", pages.session_end, name="session_end"),
    path("settings/organisation", views.organisation, name="organisation"),
    path("settings/organisation/leave", pages.organisation_leave, name="organisation_leave"),
    path("settings/invitations", views.invite, name="invite"),
    path("settings/invitations/<uuid:pk>/revoke", views.invitation_revoke, name="invitation_revoke"),
    path("settings/members/<uuid:pk>/role", views.member_role, name="member_role"),
    path("settings/members/<uuid:pk>/remove", views.member_remove, name="member_remove"),
    path("settings/tokens", views.tokens, name="tokens"),
    path("settings/tokens/<uuid:pk>/revoke", views.token_revoke, name="token_revoke"),
    path("settings/audit", views.audit, name="audit"),
    path("organisations/new", views.organisation_new, name="organisation_new"),
    path("organisations/<uuid:pk>/switch", views.organisation_switch, name="organisation_switch"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include((_OURS, "accounts"))),
    path("", include("apps.accounts.library_urls")),
]
