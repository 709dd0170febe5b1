from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, path

app_name = "accounts"

urlpatterns: list[URLPattern | URLResolver] = [
    path("sign-in", login_not_required(LoginView.as_view(template_name="accounts/sign_in.html")), name="sign_in"),
    path("sign-out", LogoutView.as_view(), name="sign_out"),
]
