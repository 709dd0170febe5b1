"""Invoices that were settled before anybody had heard whether Stripe acted: looked up there, once.

Before calls were recorded, a process that died while it brought an invoice left no row of it.
"""

from django.db import migrations

LOOK = """
INSERT INTO billing_stripepush (
    invoice_id, stripe_id, state, version, version_at, included, tell_at, hosted_url, error
)
SELECT id, '', 'waiting', 1, issued_at, '[]', issued_at, '', '' FROM billing_invoice
WHERE provider = 'stripe' AND open = 0 AND due > 0
  AND NOT EXISTS (SELECT FROM billing_stripepush WHERE invoice_id = billing_invoice.id);
"""

FORGET = """
DELETE FROM billing_stripepush WHERE stripe_id = '' AND ordered IS NULL AND state IN ('waiting', 'dropped')
  AND EXISTS (SELECT FROM billing_invoice WHERE id = invoice_id AND open = 0);
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0017_stripe_calls")]

    operations = [migrations.RunSQL(LOOK, FORGET)]
