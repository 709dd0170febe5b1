"""What the database keeps by itself (balances, months) and what more it refuses (emptying a table, forgetting)."""

from django.db import migrations

REFUSE_TRUNCATE = ("transaction", "entry", "usagerow", "hold", "holdshare", "spend", "chainroot", "account", "chain")
NEVER_EMPTIED = "".join(
    f"CREATE TRIGGER {table}_never_emptied BEFORE TRUNCATE ON ledger_{table} "
    "FOR EACH STATEMENT EXECUTE FUNCTION takt_append_only();\n"
    for table in REFUSE_TRUNCATE
)
DROP_NEVER_EMPTIED = "".join(
    f"DROP TRIGGER {table}_never_emptied ON ledger_{table};\n" for table in REFUSE_TRUNCATE
)
ADDED_ONLY = "".join(
    f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON ledger_{table} "
    "FOR EACH ROW EXECUTE FUNCTION takt_append_only();\n"
    for table in ("account", "chainroot")
)
DROP_ADDED_ONLY = (
    "DROP TRIGGER account_append_only ON ledger_account; DROP TRIGGER chainroot_append_only ON ledger_chainroot;"
)

# Postings of an organisation follow one another under the lock of its chain; should that ever fail, the unique number
# refuses the second.
BALANCE = """
CREATE FUNCTION ledger_entry_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last_number bigint;
    last_balance numeric;
BEGIN
    SELECT number, balance INTO last_number, last_balance FROM ledger_entry
    WHERE account_id = NEW.account_id ORDER BY number DESC LIMIT 1;
    NEW.number := coalesce(last_number, 0) + 1;
    NEW.balance := coalesce(last_balance, 0) + NEW.amount;
    RETURN NEW;
END;
$$;
CREATE TRIGGER entry_balance BEFORE INSERT ON ledger_entry
FOR EACH ROW EXECUTE FUNCTION ledger_entry_balance();
"""
DROP_BALANCE = "DROP TRIGGER entry_balance ON ledger_entry; DROP FUNCTION ledger_entry_balance();"

SPEND = """
CREATE FUNCTION ledger_spend_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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
CREATE TRIGGER usagerow_spend AFTER INSERT ON ledger_usagerow REFERENCING NEW TABLE AS fresh
FOR EACH STATEMENT EXECUTE FUNCTION ledger_spend_add();
"""
DROP_SPEND = "DROP TRIGGER usagerow_spend ON ledger_usagerow; DROP FUNCTION ledger_spend_add();"

SPEND_GUARD = """
CREATE FUNCTION ledger_spend_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR NEW.amount < OLD.amount OR NEW.rows <= OLD.rows OR (NEW.organisation_id, NEW.month,
        NEW.currency, NEW.project_id, NEW.token_id) IS DISTINCT FROM (OLD.organisation_id, OLD.month, OLD.currency,
        OLD.project_id, OLD.token_id)
    THEN
        RAISE EXCEPTION 'what was spent in a month only grows' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER spend_guard BEFORE UPDATE OR DELETE ON ledger_spend
FOR EACH ROW EXECUTE FUNCTION ledger_spend_guard();
"""
DROP_SPEND_GUARD = "DROP TRIGGER spend_guard ON ledger_spend; DROP FUNCTION ledger_spend_guard();"

HOLD = """
CREATE OR REPLACE FUNCTION ledger_hold_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a hold is never deleted' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.state <> 'pending' OR NEW.posted < OLD.posted OR (NEW.amount, NEW.currency, NEW.contract_id,
        NEW.organisation_id, NEW.created_at, NEW.token_id, NEW.expires_at, NEW.idempotency_key) IS DISTINCT FROM
        (OLD.amount, OLD.currency, OLD.contract_id, OLD.organisation_id, OLD.created_at, OLD.token_id, OLD.expires_at,
        OLD.idempotency_key)
    THEN
        RAISE EXCEPTION 'a hold only posts, and a closed one stays closed'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE FUNCTION ledger_holdshare_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'the share of a hold is never deleted' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.posted < OLD.posted OR (NEW.hold_id, NEW.project_id, NEW.amount) IS DISTINCT FROM
        (OLD.hold_id, OLD.project_id, OLD.amount)
    THEN
        RAISE EXCEPTION 'the share of a hold only posts' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER holdshare_guard BEFORE UPDATE OR DELETE ON ledger_holdshare
FOR EACH ROW EXECUTE FUNCTION ledger_holdshare_guard();
"""
DROP_HOLD = "DROP TRIGGER holdshare_guard ON ledger_holdshare; DROP FUNCTION ledger_holdshare_guard();"


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_batches_and_caps")]

    operations = [
        migrations.RunSQL(BALANCE, DROP_BALANCE),
        migrations.RunSQL(SPEND, DROP_SPEND),
        migrations.RunSQL(SPEND_GUARD, DROP_SPEND_GUARD),
        migrations.RunSQL(HOLD, DROP_HOLD),
        migrations.RunSQL(ADDED_ONLY, DROP_ADDED_ONLY),
        migrations.RunSQL(NEVER_EMPTIED, DROP_NEVER_EMPTIED),
    ]
