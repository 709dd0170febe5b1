"""Default limits on purchases. Administrators can set other limits on the page /buying."""

from decimal import Decimal, InvalidOperation

from django.core.exceptions import ImproperlyConfigured

from apps.config import env


def _decimal(name: str, default: str) -> Decimal:
    text = env.text(name, default)
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ImproperlyConfigured(f"{name} must be a number; it is {text!r}.") from None
    if not value.is_finite() or value < 0:
        raise ImproperlyConfigured(f"{name} must be at least 0; it is {text!r}.")
    return value


# The limit of an organisation without a payment method or an approval, in the quote's currency. none: no limit.
NEWCOMER_CREDIT = None if env.text("NEWCOMER_CREDIT", "50") == "none" else _decimal("NEWCOMER_CREDIT", "50")
# The share of a pool's device time within POOL_SHARE_DAYS that one organisation may have reserved ahead. 1: all that is free.
POOL_SHARE = _decimal("POOL_SHARE", "0.5")
POOL_SHARE_DAYS = env.integer("POOL_SHARE_DAYS", 30, at_least=1)
# Limits of what an organisation may hold for its plans at once: the number of holds, and their total device time.
HOLDS_MOST = env.integer("HOLDS_MOST", 5, at_least=0)
HOLD_SECONDS_MOST = env.integer("HOLD_SECONDS_MOST", 6 * 3600, at_least=0)
