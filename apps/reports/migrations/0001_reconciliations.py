"""Reconciliations: runs that are finished once, and what they found, which is only added."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

GUARD = """
CREATE TRIGGER reconciliationrow_append_only BEFORE UPDATE OR DELETE ON reports_reconciliationrow
FOR EACH ROW EXECUTE FUNCTION takt_append_only();
CREATE TRIGGER reconciliationrow_never_emptied BEFORE TRUNCATE ON reports_reconciliationrow
FOR EACH STATEMENT EXECUTE FUNCTION takt_append_only();
CREATE TRIGGER reconciliationrun_never_emptied BEFORE TRUNCATE ON reports_reconciliationrun
FOR EACH STATEMENT EXECUTE FUNCTION takt_append_only();
CREATE FUNCTION reports_run_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.finished_at IS NOT NULL OR (NEW.id, NEW.started_at, NEW.asked_by_id)
        IS DISTINCT FROM (OLD.id, OLD.started_at, OLD.asked_by_id)
    THEN
        RAISE EXCEPTION 'a reconciliation is finished once and never changed'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER reconciliationrun_guard BEFORE UPDATE OR DELETE ON reports_reconciliationrun
FOR EACH ROW EXECUTE FUNCTION reports_run_guard();
"""
DROP_GUARD = """
DROP TRIGGER reconciliationrun_guard ON reports_reconciliationrun;
DROP FUNCTION reports_run_guard();
DROP TRIGGER reconciliationrun_never_emptied ON reports_reconciliationrun;
DROP TRIGGER reconciliationrow_never_emptied ON reports_reconciliationrow;
DROP TRIGGER reconciliationrow_append_only ON reports_reconciliationrow;
"""
PROTECT = django.db.models.deletion.PROTECT


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0002_append_only"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ReconciliationRun",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("started_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("organisations", models.PositiveIntegerField(default=0)),
                ("differences", models.PositiveIntegerField(default=0)),
                ("stripe", models.JSONField(blank=True, null=True)),
                (
                    "asked_by",
                    models.ForeignKey(
                        null=True, on_delete=PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={"ordering": ["-started_at", "id"]},
        ),
        migrations.CreateModel(
            name="ReconciliationRow",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("stages", models.JSONField()),
                ("differences", models.JSONField(default=list)),
                ("compared_at", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(on_delete=PROTECT, related_name="+", to="accounts.organisation"),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=PROTECT, related_name="rows", to="reports.reconciliationrun"
                    ),
                ),
            ],
            options={
                "ordering": ["run", "id"],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "organisation"), name="reconciliationrow_once")
                ],
            },
        ),
        migrations.RunSQL(GUARD, DROP_GUARD),
    ]
