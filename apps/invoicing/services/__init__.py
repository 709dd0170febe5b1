"""Services that change and settle invoices."""

from apps.invoicing.services.crediting import credit_note_issue
from apps.invoicing.services.disputing import balance_refund, invoice_dispute
from apps.invoicing.services.dunning import dunning_run, invoice_collect, payment_failed
from apps.invoicing.services.granting import grant_create, grant_end, grants_expire, guarantees_credit_due
from apps.invoicing.services.invoicing import cap_change, invoice_issue, invoices_issue_month, profile_set
from apps.invoicing.services.paying import invoice_mark_paid, invoice_payment_take, invoice_write_off, payment_record
from apps.invoicing.services.voiding import invoice_void

__all__ = [
    "balance_refund",
    "cap_change",
    "credit_note_issue",
    "dunning_run",
    "grant_create",
    "grant_end",
    "grants_expire",
    "guarantees_credit_due",
    "invoice_collect",
    "invoice_dispute",
    "invoice_issue",
    "invoice_mark_paid",
    "invoice_payment_take",
    "invoice_void",
    "invoice_write_off",
    "invoices_issue_month",
    "payment_failed",
    "payment_record",
    "profile_set",
]
