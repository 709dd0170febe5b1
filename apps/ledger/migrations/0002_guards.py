"""What the database itself refuses: changing history, a transaction that does not balance, a hold that forgets."""

from django.db import migrations

TABLES = ("transaction", "entry", "usagerow")
APPEND_ONLY = "".join(
    f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON ledger_{table} "
    "FOR EACH ROW EXECUTE FUNCTION takt_append_only();\n"
    for table in TABLES
)
DROP_APPEND_ONLY = "".join(f"DROP TRIGGER {table}_append_only ON ledger_{table};\n" for table in TABLES)

# Deferred: entries are written one after the other, the sum counts when the transaction commits.
ZERO_SUM = """
CREATE FUNCTION ledger_zero_sum() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    which uuid;
    total numeric;
    sides integer;
BEGIN
    IF TG_TABLE_NAME = 'ledger_entry' THEN which := NEW.transaction_id; ELSE which := NEW.id; END IF;
    SELECT coalesce(sum(amount), 0), count(*) INTO total, sides FROM ledger_entry WHERE transaction_id = which;
    IF total <> 0 OR sides < 2 THEN
        RAISE EXCEPTION 'transaction % has % entries that sum to %', which, sides, total
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END;
$$;
CREATE CONSTRAINT TRIGGER entry_zero_sum AFTER INSERT ON ledger_entry
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger_zero_sum();
CREATE CONSTRAINT TRIGGER transaction_zero_sum AFTER INSERT ON ledger_transaction
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger_zero_sum();
"""
DROP_ZERO_SUM = """
DROP TRIGGER entry_zero_sum ON ledger_entry;
DROP TRIGGER transaction_zero_sum ON ledger_transaction;
DROP FUNCTION ledger_zero_sum();
"""

HOLD = """
CREATE FUNCTION ledger_hold_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a hold is never deleted' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.state <> 'pending' OR NEW.posted < OLD.posted OR (NEW.amount, NEW.currency, NEW.contract_id,
        NEW.organisation_id, NEW.created_at) IS DISTINCT FROM (OLD.amount, OLD.currency, OLD.contract_id,
        OLD.organisation_id, OLD.created_at)
    THEN
        RAISE EXCEPTION 'a hold only posts, and a closed one stays closed'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END;
$$;
CREATE TRIGGER hold_guard BEFORE UPDATE OR DELETE ON ledger_hold
FOR EACH ROW EXECUTE FUNCTION ledger_hold_guard();
"""
DROP_HOLD = "DROP TRIGGER hold_guard ON ledger_hold; DROP FUNCTION ledger_hold_guard();"


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial"), ("accounts", "0002_append_only")]

    operations = [
        migrations.RunSQL(APPEND_ONLY, DROP_APPEND_ONLY),
        migrations.RunSQL(ZERO_SUM, DROP_ZERO_SUM),
        migrations.RunSQL(HOLD, DROP_HOLD),
    ]
