"""The sales pages."""

from apps.sales.views.builder import quote_new, quote_preview
from apps.sales.views.buying import buying, standing
from apps.sales.views.commitments import commitment_list
from apps.sales.views.comparing import quote_compare
from apps.sales.views.contracts import contract_detail, contract_end, contract_list, contract_plan, contract_rename
from apps.sales.views.holding import plan_hold, plan_hold_release
from apps.sales.views.nodes import quota_tree
from apps.sales.views.quotes import (
    quote_accept,
    quote_detail,
    quote_file,
    quote_list,
    quote_rename,
    quote_share,
    quote_shared,
    quote_unshare,
    quote_validity,
    quote_withdraw,
)
from apps.sales.views.waiting import quote_wait, standing_detail, standing_list, standing_withdraw

__all__ = [
    "buying",
    "commitment_list",
    "contract_detail",
    "contract_end",
    "contract_list",
    "contract_plan",
    "contract_rename",
    "plan_hold",
    "plan_hold_release",
    "quota_tree",
    "quote_accept",
    "quote_compare",
    "quote_detail",
    "quote_file",
    "quote_list",
    "quote_new",
    "quote_preview",
    "quote_rename",
    "quote_share",
    "quote_shared",
    "quote_unshare",
    "quote_validity",
    "quote_wait",
    "quote_withdraw",
    "standing",
    "standing_detail",
    "standing_list",
    "standing_withdraw",
]
