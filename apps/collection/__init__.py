"""Collects payments for invoices through Stripe, and compares Stripe with the ledger."""
