"""The billing portal: usage, spend caps, credits and the ledger, and the administrator's pages of customers."""
