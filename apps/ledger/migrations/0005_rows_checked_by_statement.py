"""A usage row belongs to its transaction's organisation: checked once for all rows of a statement, not row by row."""

import django.db.models.deletion
from django.db import migrations, models

SPEND = """
    INSERT INTO ledger_spend AS spend (organisation_id, month, currency, project_id, token_id, amount, rows)
    SELECT fresh.organisation_id, date_trunc('month', fresh.created_at AT TIME ZONE 'UTC')::date, fresh.currency,
        fresh.project_id, hold.token_id, sum(fresh.amount), count(*)
    FROM fresh LEFT JOIN ledger_hold AS hold ON hold.contract_id = fresh.contract_id
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (organisation_id, month, currency, project_id, token_id)
    DO UPDATE SET amount = spend.amount + excluded.amount, rows = spend.rows + excluded.rows;
    RETURN NULL;
END;
$$;
"""
# A transaction is never deleted or changed, and has its organisation by a foreign key of its own.
CHECKED = (
    """
CREATE OR REPLACE FUNCTION ledger_spend_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT DISTINCT transaction_id, organisation_id FROM fresh) AS pair
        LEFT JOIN ledger_transaction AS posted ON posted.id = pair.transaction_id
        WHERE posted.organisation_id IS DISTINCT FROM pair.organisation_id
    ) THEN
        RAISE EXCEPTION 'usage belongs to a transaction of its own organisation'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
"""
    + SPEND
)
UNCHECKED = "CREATE OR REPLACE FUNCTION ledger_spend_add() RETURNS trigger LANGUAGE plpgsql AS $$\nBEGIN" + SPEND
PROTECT = django.db.models.deletion.PROTECT


class Migration(migrations.Migration):
    dependencies = [("ledger", "0004_kept_by_triggers")]

    operations = [
        migrations.RunSQL(CHECKED, UNCHECKED),
        migrations.AlterField(
            "usagerow",
            "organisation",
            models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=PROTECT,
                related_name="usage_rows",
                to="accounts.organisation",
            ),
        ),
        migrations.AlterField(
            "usagerow",
            "transaction",
            models.ForeignKey(
                db_constraint=False, on_delete=PROTECT, related_name="usages", to="ledger.transaction"
            ),
        ),
    ]
