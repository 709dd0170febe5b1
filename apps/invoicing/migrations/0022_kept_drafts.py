"""Drafts of invoices over much usage, kept as a worker made them."""

import django.db.models.deletion
from django.db import migrations, models

import apps.ledger.fields


class Migration(migrations.Migration):
    dependencies = [("billing", "0021_ledger_checks"), ("accounts", "0002_append_only")]

    operations = [
        migrations.CreateModel(
            name="KeptDraft",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("currency", models.CharField(max_length=3)),
                ("asked_at", models.DateTimeField(blank=True, null=True)),
                ("read_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("sequence", models.BigIntegerField(default=0)),
                ("document", apps.ledger.fields.DocumentField(blank=True, null=True)),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.organisation"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=["organisation", "currency"], name="keptdraft_once"),
                    models.CheckConstraint(
                        condition=models.Q(read_at=None, finished_at=None)
                        | models.Q(read_at__isnull=False, finished_at__gte=models.F("read_at")),
                        name="keptdraft_whole",
                    ),
                ],
            },
        ),
    ]
