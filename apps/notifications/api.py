"""JSON API for webhooks and budgets."""

from ninja import Router

from apps.notifications.budgets.api import router as budgets_router
from apps.notifications.webhooks.api import router as webhooks_router

router = Router(tags=["invoices and usage"])
router.add_router("", webhooks_router)
router.add_router("", budgets_router)
