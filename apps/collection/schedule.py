"""The periodic tasks of the collection app."""

from apps.accounts.periodic import HOUR, every

SCHEDULE = {
    "stripe-tend": every(60.0, "apps.collection.tasks.stripe_tend", queue="stripe"),
    "stripe-check": every(6 * HOUR, "apps.collection.tasks.stripe_check", queue="stripe", expires=HOUR),
}
