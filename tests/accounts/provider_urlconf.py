"""The site with an identity provider, as OIDC_SERVER mounts it."""

from django.urls import include, path

from apps.config.urls import urlpatterns as site

urlpatterns = [path("", include("apps.accounts.provider_urls")), *site]
