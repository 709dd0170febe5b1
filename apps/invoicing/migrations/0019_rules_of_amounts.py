"""Which version of the rules an invoice was issued by, what its tax carries on, and for which time a credit was used.

Invoices that are there were issued by version 1, and stay so.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0018_stripe_settled_unasked")]

    operations = [
        migrations.AddField("invoice", "rules", models.PositiveSmallIntegerField(default=1)),
        migrations.AddField(
            "invoice", "tax_carried", models.DecimalField(decimal_places=40, default=0, max_digits=72)
        ),
        migrations.AddField("credituse", "section", models.DateTimeField(null=True)),
    ]
