"""Many usage rows in one transaction; balances and months kept by triggers; caps of projects and keys; stored roots."""

import uuid

import django.db.models.deletion
from django.db import migrations, models

AMOUNT = {"decimal_places": 40, "max_digits": 72}
KINDS = {
    "wallet": "Wallet: counterpart of the reserved amounts",
    "held": "Held: reserved for accepted contracts",
    "accrued": "Accrued: used and not yet invoiced",
    "revenue": "Revenue",
    "receivable": "Receivable: invoiced and not yet paid",
    "tax": "Tax",
    "rounding": "Rounding: the differences from rounding each invoice once",
    "breakage": "Breakage: charged for reserved but unused capacity",
    "bank": "Bank: paid",
    "prepaid": "Prepaid: paid or credited in excess of the amount due",
    "credit": "Credit: granted and not yet used",
    "promotion": "Promotion: the cost of credits and free tiers",
    "refund": "Refund: paid back to the customer",
    "disputed": "Disputed: withdrawn while a dispute is open",
    "bad_debt": "Bad debt: invoiced and written off",
}
STATES = [("pending", "Pending"), ("posted", "Posted"), ("released", "Released"), ("expired", "Expired")]
PROTECT = django.db.models.deletion.PROTECT


def copy_caps(apps, schema_editor):
    """Every cap so far is an organisation's."""
    Cap = apps.get_model("ledger", "Cap")
    for old in apps.get_model("ledger", "CapBefore").objects.all():
        Cap.objects.create(
            organisation_id=old.organisation_id, amount=old.amount, currency=old.currency, set_at=old.set_at
        )


# Entries are only ever added, so their guard rests while the two new columns are written.
FILL_ENTRIES = """
ALTER TABLE ledger_entry DISABLE TRIGGER entry_append_only;
UPDATE ledger_entry SET number = counted.number, balance = counted.balance FROM (
    SELECT id, row_number() OVER so_far AS number, sum(amount) OVER so_far AS balance
    FROM ledger_entry WINDOW so_far AS (PARTITION BY account_id ORDER BY id ROWS UNBOUNDED PRECEDING)
) AS counted WHERE counted.id = ledger_entry.id;
ALTER TABLE ledger_entry ENABLE TRIGGER entry_append_only;
"""

FILL_SPEND = """
INSERT INTO ledger_spend (organisation_id, month, currency, project_id, token_id, amount, rows)
SELECT organisation_id, date_trunc('month', created_at AT TIME ZONE 'UTC')::date, currency, project_id, NULL,
    sum(amount), count(*)
FROM ledger_usagerow GROUP BY 1, 2, 3, 4;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_append_only"),
        ("registry", "0001_initial"),
        ("ledger", "0002_guards"),
    ]

    operations = [
        migrations.RemoveConstraint("account", "account_kind_known"),
        migrations.AlterField("account", "kind", models.CharField(choices=list(KINDS.items()), max_length=12)),
        migrations.AddConstraint(
            "account",
            models.CheckConstraint(condition=models.Q(("kind__in", list(KINDS))), name="account_kind_known"),
        ),
        # Entries know their account's balance.
        migrations.AddField("entry", "number", models.BigIntegerField(default=0)),
        migrations.AddField("entry", "balance", models.DecimalField(default=0, **AMOUNT)),
        migrations.RunSQL(FILL_ENTRIES, migrations.RunSQL.noop),
        migrations.AddConstraint(
            "entry",
            models.UniqueConstraint(fields=("account", "number"), include=("balance",), name="entry_number_once"),
        ),
        # Many rows in one transaction.
        migrations.AlterField(
            "usagerow",
            "transaction",
            models.ForeignKey(on_delete=PROTECT, related_name="usages", to="ledger.transaction"),
        ),
        migrations.AddField("usagerow", "token_id", models.UUIDField(null=True)),
        # Holds that time out, and know whose they are.
        migrations.AlterField(
            "hold", "state", models.CharField(choices=STATES, default="pending", max_length=10)
        ),
        migrations.AddField(
            "hold",
            "token",
            models.ForeignKey(null=True, on_delete=PROTECT, related_name="holds", to="accounts.apitoken"),
        ),
        migrations.AddField("hold", "expires_at", models.DateTimeField(blank=True, null=True)),
        migrations.RemoveConstraint("hold", "hold_closed_with_its_state"),
        migrations.AddConstraint(
            "hold",
            models.CheckConstraint(
                condition=models.Q(("closed_at__isnull", True), ("state", "pending"))
                | models.Q(("closed_at__isnull", False), ("state__in", ["posted", "released", "expired"])),
                name="hold_closed_with_its_state",
            ),
        ),
        migrations.AddIndex(
            "hold",
            models.Index(condition=models.Q(("state", "pending")), fields=["expires_at"], name="hold_expiring"),
        ),
        migrations.CreateModel(
            name="HoldShare",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("amount", models.DecimalField(**AMOUNT)),
                ("posted", models.DecimalField(default=0, **AMOUNT)),
                ("hold", models.ForeignKey(on_delete=PROTECT, related_name="shares", to="ledger.hold")),
                ("project", models.ForeignKey(on_delete=PROTECT, related_name="+", to="registry.project")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("hold", "project"), name="holdshare_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("amount__gt", 0), ("posted__gte", 0), ("posted__lte", models.F("amount"))
                        ),
                        name="holdshare_within",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Spend",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("month", models.DateField()),
                ("currency", models.CharField(max_length=3)),
                ("project_id", models.UUIDField(null=True)),
                ("token_id", models.UUIDField(null=True)),
                ("amount", models.DecimalField(**AMOUNT)),
                ("rows", models.BigIntegerField()),
                (
                    "organisation",
                    models.ForeignKey(on_delete=PROTECT, related_name="+", to="accounts.organisation"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organisation", "month", "currency", "project_id", "token_id"),
                        nulls_distinct=False,
                        name="spend_once",
                    )
                ],
            },
        ),
        migrations.RunSQL(FILL_SPEND, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="ChainRoot",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("day", models.DateField()),
                ("sequence", models.BigIntegerField()),
                ("hash", models.CharField(max_length=64)),
                ("stored_at", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(on_delete=PROTECT, related_name="chain_roots", to="accounts.organisation"),
                ),
            ],
            options={
                "ordering": ["-day"],
                "constraints": [
                    models.UniqueConstraint(fields=("organisation", "day"), name="chainroot_once_a_day")
                ],
            },
        ),
        # Caps of projects and keys beside the organisation's.
        migrations.RenameModel("Cap", "CapBefore"),
        migrations.CreateModel(
            name="Cap",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("amount", models.DecimalField(**AMOUNT)),
                ("currency", models.CharField(max_length=3)),
                ("set_at", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(on_delete=PROTECT, related_name="caps", to="accounts.organisation"),
                ),
                (
                    "project",
                    models.ForeignKey(null=True, on_delete=PROTECT, related_name="+", to="registry.project"),
                ),
                (
                    "token",
                    models.ForeignKey(null=True, on_delete=PROTECT, related_name="+", to="accounts.apitoken"),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("amount__gte", 0)), name="cap_not_negative"),
                    models.CheckConstraint(
                        condition=models.Q(("project__isnull", True)) | models.Q(("token__isnull", True)),
                        name="cap_one_scope",
                    ),
                    models.UniqueConstraint(
                        fields=("organisation", "project", "token"), nulls_distinct=False, name="cap_once_a_scope"
                    ),
                ],
            },
        ),
        migrations.RunPython(copy_caps, migrations.RunPython.noop),
        migrations.DeleteModel("CapBefore"),
    ]
