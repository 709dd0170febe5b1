"""What settles an invoice is only added, and what is open is what is due less that: checked when a transaction commits."""

from django.db import migrations

TABLES = ("payment", "settlement", "dunningstep", "creditnote", "creditnoteline")
APPEND_ONLY = "".join(
    f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON billing_{table} "
    "FOR EACH ROW EXECUTE FUNCTION takt_append_only();\n"
    for table in TABLES
)
DROP_APPEND_ONLY = "".join(f"DROP TRIGGER {table}_append_only ON billing_{table};\n" for table in TABLES)

OPEN_IS_DUE_LESS_SETTLED = """
CREATE FUNCTION billing_open_sum() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    which uuid;
    wrong boolean;
BEGIN
    IF TG_TABLE_NAME = 'billing_settlement' THEN which := NEW.invoice_id; ELSE which := NEW.id; END IF;
    SELECT open <> due - coalesce((SELECT sum(amount) FROM billing_settlement WHERE invoice_id = which), 0)
        INTO wrong FROM billing_invoice WHERE id = which;
    IF wrong THEN
        RAISE EXCEPTION 'what is open of invoice % is not what is due less what was settled', which
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END;
$$;
CREATE CONSTRAINT TRIGGER settlement_open_sum AFTER INSERT ON billing_settlement
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_open_sum();
CREATE CONSTRAINT TRIGGER invoice_open_sum AFTER INSERT OR UPDATE OF open ON billing_invoice
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION billing_open_sum();
"""
DROP_OPEN = """
DROP TRIGGER invoice_open_sum ON billing_invoice;
DROP TRIGGER settlement_open_sum ON billing_settlement;
DROP FUNCTION billing_open_sum();
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0004_settlements_and_credit_notes"), ("accounts", "0002_append_only")]

    operations = [
        migrations.RunSQL(APPEND_ONLY, DROP_APPEND_ONLY),
        migrations.RunSQL(OPEN_IS_DUE_LESS_SETTLED, DROP_OPEN),
    ]
