"""Collects invoices through Stripe: customers, cards, invoices, events, and the comparison of both sides."""
