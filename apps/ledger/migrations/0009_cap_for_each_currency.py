"""A spend cap for each currency, so that a cap in one never stands for, nor hides, what is spent in another."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_append_only"),
        ("ledger", "0008_spending_stays_in_sight"),
        ("registry", "0001_initial"),
    ]

    operations = [
        migrations.AddConstraint(
            model_name="cap",
            constraint=models.UniqueConstraint(
                fields=("organisation", "project", "token", "currency"), name="cap_once_a_scope_and_currency",
                nulls_distinct=False,
            ),
        ),
        migrations.RemoveConstraint(model_name="cap", name="cap_once_a_scope"),
    ]
