import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_confirmed")]

    operations = [
        migrations.CreateModel(
            name="Counter",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[("quote", "Quote"), ("contract", "Contract"), ("job", "Job")], max_length=10
                    ),
                ),
                ("last", models.PositiveIntegerField()),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.organisation"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("organisation", "kind"), name="counter_once")],
            },
        ),
    ]
