"""The pages of finance: usage, caps, the ledger of an organisation, and the administrator's view of customers."""
