"""Invoices, credit notes, payments and credits of customers, and the outbox."""
