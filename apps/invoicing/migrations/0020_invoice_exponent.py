"""The places of an invoice's currency beside its document, which is large where much was used."""

from django.db import migrations, models
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast

UNGUARD = "DROP TRIGGER invoice_frozen ON billing_invoice;"
BEFORE = """
CREATE TRIGGER invoice_frozen BEFORE UPDATE OR DELETE ON billing_invoice
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state', 'paid_at', 'payment_reference', 'open', 'reminders', 'dispute');
"""
# A generated column is not filled yet when the guard sees the row; it follows from the document, which is frozen.
AFTER = """
CREATE TRIGGER invoice_frozen BEFORE UPDATE OR DELETE ON billing_invoice
FOR EACH ROW EXECUTE FUNCTION sales_frozen(
    'state', 'paid_at', 'payment_reference', 'open', 'reminders', 'dispute', 'exponent'
);
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0019_rules_of_amounts")]

    operations = [
        migrations.RunSQL(UNGUARD, BEFORE),
        migrations.AddField(
            model_name="invoice",
            name="exponent",
            field=models.GeneratedField(
                db_persist=True,
                expression=Cast(
                    KeyTextTransform("exponent", KeyTransform("currency", "document")), models.SmallIntegerField()
                ),
                output_field=models.SmallIntegerField(),
            ),
        ),
        migrations.RunSQL(AFTER, UNGUARD),
    ]
