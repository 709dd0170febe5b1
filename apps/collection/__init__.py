"""Collects payments through Stripe, and compares Stripe with the ledger."""
