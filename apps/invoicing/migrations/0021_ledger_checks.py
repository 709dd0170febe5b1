"""Checks of a customer's whole history, kept with their time."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

GUARD = """
CREATE FUNCTION billing_ledgercheck_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.finished_at IS NOT NULL OR
        (NEW.id, NEW.organisation_id, NEW.asked_by_id, NEW.asked_at) IS DISTINCT FROM
        (OLD.id, OLD.organisation_id, OLD.asked_by_id, OLD.asked_at)
    THEN
        RAISE EXCEPTION 'a check of a ledger is finished once and never changed'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER ledgercheck_guard BEFORE UPDATE OR DELETE ON billing_ledgercheck
FOR EACH ROW EXECUTE FUNCTION billing_ledgercheck_guard();
CREATE TRIGGER ledgercheck_never_emptied BEFORE TRUNCATE ON billing_ledgercheck
FOR EACH STATEMENT EXECUTE FUNCTION takt_append_only();
"""
DROP_GUARD = """
DROP TRIGGER ledgercheck_never_emptied ON billing_ledgercheck; DROP TRIGGER ledgercheck_guard ON billing_ledgercheck;
DROP FUNCTION billing_ledgercheck_guard();
"""
PROTECT = django.db.models.deletion.PROTECT


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0020_invoice_exponent"),
        ("accounts", "0002_append_only"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="LedgerCheck",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("asked_at", models.DateTimeField()),
                ("read_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("sequence", models.BigIntegerField(default=0)),
                ("head", models.CharField(blank=True, default="", max_length=64)),
                ("broken_at", models.BigIntegerField(blank=True, null=True)),
                ("reason", models.TextField(blank=True, default="")),
                ("amounts", models.JSONField(default=list)),
                ("differences", models.JSONField(default=list)),
                (
                    "asked_by",
                    models.ForeignKey(
                        null=True, on_delete=PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(on_delete=PROTECT, related_name="ledger_checks", to="accounts.organisation"),
                ),
            ],
            options={
                "ordering": ["-asked_at", "-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(finished_at=None), fields=["organisation"], name="ledgercheck_one_at_a_time"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(read_at=None, finished_at=None)
                        | models.Q(read_at__isnull=False, finished_at__gte=models.F("read_at")),
                        name="ledgercheck_read_before_finished",
                    ),
                ],
                "indexes": [models.Index(fields=["organisation", "-read_at"], name="ledgercheck_newest")],
            },
        ),
        migrations.RunSQL(GUARD, DROP_GUARD),
    ]
