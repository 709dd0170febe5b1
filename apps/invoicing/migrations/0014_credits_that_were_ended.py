"""That a person ended a credit, and why: only added."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

APPEND_ONLY = """
CREATE TRIGGER creditend_append_only BEFORE UPDATE OR DELETE ON billing_creditend
FOR EACH ROW EXECUTE FUNCTION takt_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_append_only"),
        ("billing", "0013_stripe_customer_address"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="CreditEnd",
            fields=[
                (
                    "grant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name="end",
                        serialize=False, to="billing.creditgrant",
                    ),
                ),
                ("reason", models.CharField(max_length=300)),
                ("ended_at", models.DateTimeField()),
                (
                    "ended_by",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.RunSQL(APPEND_ONLY, "DROP TRIGGER creditend_append_only ON billing_creditend;"),
    ]
