"""Periodic tasks of notifications."""

from apps.accounts.periodic import HOUR, every

TASKS = "apps.notifications.tasks"

SCHEDULE = {
    "webhooks-send": every(3.0, f"{TASKS}.webhooks_send", queue="webhooks"),
    "notices-write": every(3.0, f"{TASKS}.notices_write"),
    "notices-sweep": every(24 * HOUR, f"{TASKS}.notices_sweep"),
}
