"""History grows at its end alone: what is new follows from the chain's head, is of one organisation, and is whole.

Tables are named with their schema: whoever may make temporary tables could otherwise put one of the same name before the
function that looks. A message of the outbox is told once, and neither rewritten nor forgotten.
"""

from django.db import migrations

# What the functions were is of no use to anybody going back: they refuse more, and keep the same.
TRANSACTIONS = """
CREATE FUNCTION ledger_transaction_follows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM public.ledger_chain AS chain WHERE chain.organisation_id = NEW.organisation_id
            AND chain.sequence = NEW.sequence - 1 AND chain.hash = NEW.previous_hash
    ) THEN
        RAISE EXCEPTION 'transaction % does not follow from the head of its chain', NEW.sequence
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER transaction_follows BEFORE INSERT ON ledger_transaction
FOR EACH ROW EXECUTE FUNCTION ledger_transaction_follows();

CREATE FUNCTION ledger_chain_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a chain is never deleted' USING ERRCODE = 'integrity_constraint_violation';
    ELSIF TG_OP = 'INSERT' THEN
        IF NEW.sequence <> 0 OR NEW.hash <> repeat('0', 64) THEN
            RAISE EXCEPTION 'a chain begins with nothing' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    ELSIF NEW.organisation_id <> OLD.organisation_id OR NEW.sequence <> OLD.sequence + 1 OR NOT EXISTS (
        SELECT FROM public.ledger_transaction AS posted WHERE posted.organisation_id = NEW.organisation_id
            AND posted.sequence = NEW.sequence AND posted.hash = NEW.hash
    ) THEN
        RAISE EXCEPTION 'the head of a chain goes on to the next transaction, one by one'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER chain_guard BEFORE INSERT OR UPDATE OR DELETE ON ledger_chain
FOR EACH ROW EXECUTE FUNCTION ledger_chain_guard();
"""
DROP_TRANSACTIONS = """
DROP TRIGGER chain_guard ON ledger_chain;
DROP FUNCTION ledger_chain_guard();
DROP TRIGGER transaction_follows ON ledger_transaction;
DROP FUNCTION ledger_transaction_follows();
"""

# The head moves on after the entries and before the usage rows: entries are of a transaction ahead of it, rows of its own.
ENTRIES = """
CREATE OR REPLACE FUNCTION ledger_entry_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last_number bigint;
    last_balance numeric;
BEGIN
    IF NOT EXISTS (
        SELECT FROM public.ledger_transaction AS posted
        JOIN public.ledger_account AS account ON account.organisation_id = posted.organisation_id
        JOIN public.ledger_chain AS chain ON chain.organisation_id = posted.organisation_id
        WHERE posted.id = NEW.transaction_id AND account.id = NEW.account_id AND chain.sequence < posted.sequence
    ) THEN
        RAISE EXCEPTION 'an entry is of a new transaction of its own organisation'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    SELECT number, balance INTO last_number, last_balance FROM public.ledger_entry
    WHERE account_id = NEW.account_id ORDER BY number DESC LIMIT 1;
    NEW.number := coalesce(last_number, 0) + 1;
    NEW.balance := coalesce(last_balance, 0) + NEW.amount;
    RETURN NEW;
END;
$$;
"""
WHOLE = """
CREATE OR REPLACE FUNCTION ledger_zero_sum() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    which uuid;
    total numeric;
    sides integer;
BEGIN
    IF TG_TABLE_NAME = 'ledger_entry' THEN which := NEW.transaction_id; ELSE which := NEW.id; END IF;
    SELECT coalesce(sum(amount), 0), count(*) INTO total, sides FROM public.ledger_entry WHERE transaction_id = which;
    IF total <> 0 OR sides < 2 THEN
        RAISE EXCEPTION 'transaction % has % entries that sum to %', which, sides, total
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END;
$$;
CREATE FUNCTION ledger_usage_has_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM public.ledger_usagerow WHERE transaction_id = NEW.id) THEN
        RAISE EXCEPTION 'transaction % is of usage and has no usage row', NEW.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END;
$$;
CREATE CONSTRAINT TRIGGER usage_has_rows AFTER INSERT ON ledger_transaction
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.kind = 'usage') EXECUTE FUNCTION ledger_usage_has_rows();
"""
DROP_WHOLE = "DROP TRIGGER usage_has_rows ON ledger_transaction; DROP FUNCTION ledger_usage_has_rows();"

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
    SELECT fresh.organisation_id, date_trunc('month', fresh.created_at AT TIME ZONE 'UTC')::date, fresh.currency,
        fresh.project_id, hold.token_id, sum(fresh.amount), count(*)
    FROM fresh LEFT JOIN public.ledger_hold AS hold ON hold.contract_id = fresh.contract_id
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (organisation_id, month, currency, project_id, token_id)
    DO UPDATE SET amount = spend.amount + excluded.amount, rows = spend.rows + excluded.rows;
    RETURN NULL;
END;
$$;
"""

OUTBOX = """
CREATE TRIGGER outboxrow_told BEFORE UPDATE ON ledger_outboxrow FOR EACH ROW WHEN (
    (NEW.id, NEW.organisation_id, NEW.topic, NEW.payload, NEW.created_at)
        IS DISTINCT FROM (OLD.id, OLD.organisation_id, OLD.topic, OLD.payload, OLD.created_at)
    OR (OLD.delivered_at IS NOT NULL AND NEW.delivered_at IS DISTINCT FROM OLD.delivered_at)
) EXECUTE FUNCTION takt_append_only();
CREATE TRIGGER outboxrow_kept BEFORE DELETE ON ledger_outboxrow FOR EACH ROW EXECUTE FUNCTION takt_append_only();
CREATE TRIGGER outboxrow_never_emptied BEFORE TRUNCATE ON ledger_outboxrow
FOR EACH STATEMENT EXECUTE FUNCTION takt_append_only();
"""
DROP_OUTBOX = "".join(
    f"DROP TRIGGER outboxrow_{name} ON ledger_outboxrow;\n" for name in ("told", "kept", "never_emptied")
)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0006_ratings_kept_as_text")]

    operations = [
        migrations.RunSQL(TRANSACTIONS, DROP_TRANSACTIONS),
        migrations.RunSQL(ENTRIES, migrations.RunSQL.noop),
        migrations.RunSQL(WHOLE, DROP_WHOLE),
        migrations.RunSQL(ROWS, migrations.RunSQL.noop),
        migrations.RunSQL(OUTBOX, DROP_OUTBOX),
    ]
