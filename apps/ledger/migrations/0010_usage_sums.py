"""Usage added up by contract, program and quarter of an hour, so that a report reads as many rows as there are quarters."""

import django.db.models.deletion
from django.db import migrations, models

KEY = (
    "organisation_id, recorded_at, occurred_at, currency, contract_id, program_digest, project_id, token_id, model_name, "
    "klass, unused"
)
# In quarters of an hour from an hour that every zone agrees on.
SUMS = f"""
    INSERT INTO public.ledger_usagesum AS known ({KEY}, quantity, operations, billed_operations, amount, rows)
    SELECT organisation_id, date_bin('15 minutes', created_at, 'epoch'), date_bin('15 minutes', occurred_from, 'epoch'),
        currency, contract_id, program_digest, project_id, token_id, model_name, klass, unused,
        sum(quantity), sum(operations), sum(billed_operations), sum(amount), count(*)
    FROM {{source}} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
"""
ADD = f"""
CREATE FUNCTION ledger_usagesum_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {SUMS.format(source="fresh")}
    ON CONFLICT ({KEY}) DO UPDATE SET quantity = known.quantity + excluded.quantity,
        operations = known.operations + excluded.operations,
        billed_operations = known.billed_operations + excluded.billed_operations,
        amount = known.amount + excluded.amount, rows = known.rows + excluded.rows;
    RETURN NULL;
END;
$$;
CREATE TRIGGER usagerow_sum AFTER INSERT ON ledger_usagerow REFERENCING NEW TABLE AS fresh
FOR EACH STATEMENT EXECUTE FUNCTION ledger_usagesum_add();
"""
DROP_ADD = "DROP TRIGGER usagerow_sum ON ledger_usagerow; DROP FUNCTION ledger_usagesum_add();"

GUARD = f"""
CREATE FUNCTION ledger_usagesum_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR NEW.amount <= OLD.amount OR NEW.quantity <= OLD.quantity OR NEW.rows <= OLD.rows OR
        ({", ".join(f"NEW.{name}" for name in KEY.split(", "))}) IS DISTINCT FROM
        ({", ".join(f"OLD.{name}" for name in KEY.split(", "))})
    THEN
        RAISE EXCEPTION 'sums of usage only grow' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER usagesum_guard BEFORE UPDATE OR DELETE ON ledger_usagesum
FOR EACH ROW EXECUTE FUNCTION ledger_usagesum_guard();
CREATE TRIGGER usagesum_never_emptied BEFORE TRUNCATE ON ledger_usagesum
FOR EACH STATEMENT EXECUTE FUNCTION takt_append_only();
"""
DROP_GUARD = """
DROP TRIGGER usagesum_never_emptied ON ledger_usagesum; DROP TRIGGER usagesum_guard ON ledger_usagesum;
DROP FUNCTION ledger_usagesum_guard();
"""


def amount() -> models.DecimalField:
    return models.DecimalField(decimal_places=40, max_digits=72)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0009_cap_for_each_currency"), ("accounts", "0001_initial")]

    operations = [
        migrations.AddIndex(
            "usagerow",
            models.Index(fields=["organisation", "-created_at", "-id"], name="usage_by_record"),
        ),
        migrations.CreateModel(
            name="UsageSum",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("recorded_at", models.DateTimeField()),
                ("occurred_at", models.DateTimeField()),
                ("currency", models.CharField(max_length=3)),
                ("contract_id", models.UUIDField(db_index=True)),
                ("program_digest", models.CharField(max_length=64)),
                ("project_id", models.UUIDField(null=True)),
                ("token_id", models.UUIDField(null=True)),
                ("model_name", models.CharField(max_length=200)),
                ("klass", models.CharField(max_length=20)),
                ("unused", models.BooleanField()),
                ("quantity", models.DecimalField(decimal_places=0, max_digits=40)),
                ("operations", models.DecimalField(decimal_places=0, max_digits=50)),
                ("billed_operations", models.DecimalField(decimal_places=0, max_digits=50)),
                ("amount", amount()),
                ("rows", models.BigIntegerField()),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+",
                        to="accounts.organisation",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=(
                            "organisation", "recorded_at", "occurred_at", "currency", "contract_id", "program_digest",
                            "project_id", "token_id", "model_name", "klass", "unused",
                        ),
                        name="usagesum_once",
                        nulls_distinct=False,
                    )
                ],
                "indexes": [
                    models.Index(fields=["recorded_at"], name="usagesum_by_record"),
                    models.Index(fields=["occurred_at"], name="usagesum_by_time"),
                ],
            },
        ),
        migrations.RunSQL(SUMS.format(source="ledger_usagerow"), migrations.RunSQL.noop),
        migrations.RunSQL(ADD, DROP_ADD),
        migrations.RunSQL(GUARD, DROP_GUARD),
    ]
