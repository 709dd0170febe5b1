"""A clock that jumps moves no spending out of its cap's sight: usage counts to a month in which its hold was there.

A worker whose clock is a year behind would post to a month that is long over, and free the present one's cap of what it
used; one that is ahead, to a month to come.
"""

from django.db import migrations

MONTH = """
CREATE FUNCTION ledger_month(at timestamptz, held timestamptz, until timestamptz) RETURNS date LANGUAGE sql STABLE AS $$
    SELECT date_trunc('month', greatest(held, least(at, until)) AT TIME ZONE 'UTC')::date;
$$;
"""
ROWS = """
CREATE OR REPLACE FUNCTION ledger_spend_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM (
            SELECT transaction_id, organisation_id, count(*) AS rows, sum(amount) AS amount FROM fresh GROUP BY 1, 2
        ) AS told
        LEFT JOIN public.ledger_transaction AS posted
            ON posted.id = told.transaction_id AND posted.organisation_id = told.organisation_id AND posted.kind = 'usage'
        LEFT JOIN public.ledger_chain AS chain
            ON chain.organisation_id = told.organisation_id AND chain.sequence = posted.sequence
        WHERE chain.sequence IS NULL
            OR told.rows <> (posted.detail->>'count')::bigint
            OR told.rows <> (SELECT count(*) FROM public.ledger_usagerow WHERE transaction_id = told.transaction_id)
            OR told.amount IS DISTINCT FROM (
                SELECT sum(entry.amount) FROM public.ledger_entry AS entry
                JOIN public.ledger_account AS account ON account.id = entry.account_id
                WHERE entry.transaction_id = told.transaction_id AND account.kind = 'accrued'
            )
    ) THEN
        RAISE EXCEPTION 'usage rows are of the newest transaction of their organisation, which posts just them'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    INSERT INTO public.ledger_spend AS spend (organisation_id, month, currency, project_id, token_id, amount, rows)
    SELECT fresh.organisation_id,
        public.ledger_month(fresh.created_at, hold.created_at, hold.expires_at), fresh.currency,
        fresh.project_id, hold.token_id, sum(fresh.amount), count(*)
    FROM fresh LEFT JOIN public.ledger_hold AS hold ON hold.contract_id = fresh.contract_id
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (organisation_id, month, currency, project_id, token_id)
    DO UPDATE SET amount = spend.amount + excluded.amount, rows = spend.rows + excluded.rows;
    RETURN NULL;
END;
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0007_history_grows_at_its_end")]

    operations = [
        migrations.RunSQL(MONTH, migrations.RunSQL.noop),
        migrations.RunSQL(ROWS, migrations.RunSQL.noop),
    ]
