"""URLs of the sales pages."""

from django.urls import URLPattern, URLResolver, path

from apps.sales import views

app_name = "sales"

urlpatterns: list[URLPattern | URLResolver] = [
    path("plans/<uuid:pk>/hold", views.plan_hold, name="plan_hold"),
    path("plans/<uuid:pk>/hold/release", views.plan_hold_release, name="plan_hold_release"),
    path("quotes", views.quote_list, name="quote_list"),
    path("quotes/new", views.quote_new, name="quote_new"),
    path("quotes/new/preview", views.quote_preview, name="quote_preview"),
    path("quotes/compare", views.quote_compare, name="quote_compare"),
    path("quotes/<uuid:pk>", views.quote_detail, name="quote_detail"),
    path("quotes/<uuid:pk>/validity", views.quote_validity, name="quote_validity"),
    path("quotes/<uuid:pk>/accept", views.quote_accept, name="quote_accept"),
    path("quotes/<uuid:pk>/quote.<str:kind>", views.quote_file, name="quote_file"),
    path("quotes/<uuid:pk>/name", views.quote_rename, name="quote_rename"),
    path("quotes/<uuid:pk>/withdraw", views.quote_withdraw, name="quote_withdraw"),
    path("quotes/<uuid:pk>/share", views.quote_share, name="quote_share"),
    path("quotes/<uuid:pk>/unshare", views.quote_unshare, name="quote_unshare"),
    path("shared/quotes/<str:token>", views.quote_shared, name="quote_shared"),
    path("quotes/<uuid:pk>/wait", views.quote_wait, name="quote_wait"),
    path("standing", views.standing_list, name="standing_list"),
    path("standing/<uuid:pk>", views.standing_detail, name="standing_detail"),
    path("standing/<uuid:pk>/withdraw", views.standing_withdraw, name="standing_withdraw"),
    path("quotas", views.quota_tree, name="quota_tree"),
    path("buying", views.buying, name="buying"),
    path("buying/<uuid:pk>", views.standing, name="standing"),
    path("commitments", views.commitment_list, name="commitment_list"),
    path("contracts", views.contract_list, name="contract_list"),
    path("contracts/<uuid:pk>", views.contract_detail, name="contract_detail"),
    path("contracts/<uuid:pk>/name", views.contract_rename, name="contract_rename"),
    path("contracts/<uuid:pk>/plan", views.contract_plan, name="contract_plan"),
    path("contracts/<uuid:pk>/end", views.contract_end, name="contract_end"),
]
