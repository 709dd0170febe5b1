"""Pages of the sales room."""

from apps.sales.views.builder import quote_new, quote_preview
from apps.sales.views.contracts import contract_detail, contract_end, contract_list
from apps.sales.views.quotes import quote_accept, quote_detail, quote_file, quote_list, quote_shared, quote_validity

__all__ = [
    "contract_detail",
    "contract_end",
    "contract_list",
    "quote_accept",
    "quote_detail",
    "quote_file",
    "quote_list",
    "quote_new",
    "quote_preview",
    "quote_shared",
    "quote_validity",
]
