"""The notifications room's periodic work."""

from apps.accounts.periodic import every

SCHEDULE = {"webhooks-send": every(3.0, "apps.notifications.tasks.webhooks_send", queue="webhooks")}
