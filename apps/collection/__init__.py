"""Collects payments for invoices through Stripe: customers, cards, invoices, events, and the comparison with the ledger."""
