"""Changes to the ledger. Each change belongs to the transaction of the event that it records."""

from apps.ledger.services.caps import CapMissing, CapReached, cap_check, cap_in, cap_set
from apps.ledger.services.holds import HOLD_GRACE, hold_place, hold_place_locked, hold_release, holds_expire_due
from apps.ledger.services.reversal import transaction_reverse
from apps.ledger.services.usages import Posted, detail_of, usage_post, usage_post_batch

__all__ = [
    "HOLD_GRACE",
    "CapMissing",
    "CapReached",
    "Posted",
    "cap_check",
    "cap_in",
    "cap_set",
    "detail_of",
    "hold_place",
    "hold_place_locked",
    "hold_release",
    "holds_expire_due",
    "transaction_reverse",
    "usage_post",
    "usage_post_batch",
]
