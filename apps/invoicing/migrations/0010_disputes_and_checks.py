"""Whether an invoice's money is disputed, the card on file, and comparisons with Stripe, which are only added."""

from django.db import migrations, models

UNGUARD = "DROP TRIGGER invoice_frozen ON billing_invoice;"
BEFORE = """
CREATE TRIGGER invoice_frozen BEFORE UPDATE OR DELETE ON billing_invoice
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state', 'paid_at', 'payment_reference', 'open', 'reminders');
"""
AFTER = """
CREATE TRIGGER invoice_frozen BEFORE UPDATE OR DELETE ON billing_invoice
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state', 'paid_at', 'payment_reference', 'open', 'reminders', 'dispute');
"""
APPEND_ONLY = """
CREATE TRIGGER stripecheck_append_only BEFORE UPDATE OR DELETE ON billing_stripecheck
FOR EACH ROW EXECUTE FUNCTION takt_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0009_budgets"), ("accounts", "0002_append_only")]

    operations = [
        migrations.RunSQL(UNGUARD, BEFORE),
        migrations.AddField(
            model_name="invoice",
            name="dispute",
            field=models.CharField(
                blank=True,
                choices=[("open", "Disputed"), ("won", "Dispute won"), ("lost", "Dispute lost")],
                default="",
                max_length=4,
            ),
            preserve_default=False,
        ),
        migrations.RunSQL(AFTER, UNGUARD),
        migrations.AddField(
            model_name="stripecustomer",
            name="method_label",
            field=models.CharField(blank=True, default="", max_length=60),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="stripefact",
            name="kind",
            field=models.CharField(
                choices=[
                    ("paid", "Paid"),
                    ("failed", "Payment failed"),
                    ("refunded", "Refunded"),
                    ("refund_failed", "Refund came back"),
                    ("disputed", "Disputed"),
                    ("dispute_won", "Dispute won"),
                    ("dispute_lost", "Dispute lost"),
                ],
                max_length=14,
            ),
        ),
        migrations.CreateModel(
            name="StripeCheck",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("rows", models.JSONField()),
                ("differences", models.JSONField()),
            ],
            options={"ordering": ["-id"]},
        ),
        migrations.RunSQL(APPEND_ONLY, "DROP TRIGGER stripecheck_append_only ON billing_stripecheck;"),
    ]
