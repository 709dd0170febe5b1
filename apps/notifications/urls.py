"""URLs of notifications."""

from django.urls import URLPattern, URLResolver, path

from apps.notifications.budgets import views as budgets
from apps.notifications.notices import views as notices
from apps.notifications.webhooks import views as webhooks

app_name = "notifications"

urlpatterns: list[URLPattern | URLResolver] = [
    path("portal/budgets", budgets.budget_list, name="budget_list"),
    path("portal/budgets/<uuid:pk>/delete", budgets.budget_delete, name="budget_delete"),
    path("portal/webhooks", webhooks.endpoint_list, name="webhook_list"),
    path("portal/webhooks/<uuid:pk>", webhooks.endpoint_detail, name="webhook_detail"),
    path("notices", notices.notice_list, name="notice_list"),
    path("notices/read", notices.notices_read_all, name="notices_read"),
    path("notices/<uuid:pk>", notices.notice_open, name="notice_open"),
    path("outbox", webhooks.outbox, name="outbox"),
]
