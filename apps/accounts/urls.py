from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, path

from apps.accounts import views

app_name = "accounts"

urlpatterns: list[URLPattern | URLResolver] = [
    path("sign-up", views.sign_up, name="sign_up"),
    path("sign-in", login_not_required(views.SignIn.as_view()), name="sign_in"),
    path("sign-out", LogoutView.as_view(), name="sign_out"),
    path("invitations/<str:secret>", views.invitation, name="invitation"),
    path("settings/password", views.PasswordChange.as_view(), name="password"),
    path("settings/organisation", views.organisation, name="organisation"),
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
