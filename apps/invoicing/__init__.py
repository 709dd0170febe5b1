"""Invoices, credit notes, credits, payments, and the exports of all of them."""
