"""The services that change quotes and contracts."""

from apps.sales.lines import Quota, QuoteLine
from apps.sales.selectors import contract_allowed
from apps.sales.services.accepting import quote_accept
from apps.sales.services.committing import commitment_enter
from apps.sales.services.contracts import (
    contract_close,
    contract_end,
    contract_executions_return,
    contract_executions_take,
    contract_lease_rate,
    contracts_close_due,
)
from apps.sales.services.hold_ending import plan_hold_release, plan_holds_end_due
from apps.sales.services.holding import holds_live, plan_hold
from apps.sales.services.naming import contract_rename, quote_rename
from apps.sales.services.prechecks import offer_refusals, plan_refusals
from apps.sales.services.quoting import MOST_EXECUTIONS, Offer, offer_make, quote_create
from apps.sales.services.reviewing import contract_review, contracts_review_due
from apps.sales.services.serving import standing_serve, standing_serve_all
from apps.sales.services.sharing import quote_share, quote_unshare, quote_withdraw
from apps.sales.services.standing import (
    acceptance_refusals,
    buying_rules_set,
    payment_method_note,
    rules_now,
    standing_of,
    standing_set,
)
from apps.sales.services.waiting import standing_expire_due, standing_file, standing_withdraw

__all__ = [
    "MOST_EXECUTIONS",
    "Offer",
    "Quota",
    "QuoteLine",
    "acceptance_refusals",
    "buying_rules_set",
    "commitment_enter",
    "contract_allowed",
    "contract_close",
    "contract_end",
    "contract_executions_return",
    "contract_executions_take",
    "contract_lease_rate",
    "contract_rename",
    "contract_review",
    "contracts_close_due",
    "contracts_review_due",
    "holds_live",
    "offer_make",
    "offer_refusals",
    "payment_method_note",
    "plan_hold",
    "plan_hold_release",
    "plan_holds_end_due",
    "plan_refusals",
    "quote_accept",
    "quote_create",
    "quote_rename",
    "quote_share",
    "quote_unshare",
    "quote_withdraw",
    "rules_now",
    "standing_expire_due",
    "standing_file",
    "standing_of",
    "standing_serve",
    "standing_serve_all",
    "standing_set",
    "standing_withdraw",
]
