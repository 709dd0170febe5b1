"""The billing portal: usage, spend caps, credits, the ledger, and the administrator's pages of customers."""
