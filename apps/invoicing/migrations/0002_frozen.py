"""An issued invoice never changes but for being paid; its lines and what they claim never change at all."""

from django.db import migrations

FORWARD = """
CREATE TRIGGER invoice_frozen BEFORE UPDATE OR DELETE ON billing_invoice
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state', 'paid_at', 'payment_reference');
CREATE TRIGGER invoiceline_append_only BEFORE UPDATE OR DELETE ON billing_invoiceline
FOR EACH ROW EXECUTE FUNCTION takt_append_only();
CREATE TRIGGER invoicedusage_append_only BEFORE UPDATE OR DELETE ON billing_invoicedusage
FOR EACH ROW EXECUTE FUNCTION takt_append_only();
"""
BACKWARD = """
DROP TRIGGER invoicedusage_append_only ON billing_invoicedusage;
DROP TRIGGER invoiceline_append_only ON billing_invoiceline;
DROP TRIGGER invoice_frozen ON billing_invoice;
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0001_initial"), ("sales", "0002_frozen"), ("accounts", "0002_append_only")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
