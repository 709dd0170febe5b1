"""The billing portal: usage, spend caps, credits, the ledger, and the customer pages for administrators."""
