"""What the database refuses: that an accepted or withdrawn quote is open again, and a contract whose time is over active."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION sales_state_forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% % is % and stays as it is', TG_TABLE_NAME, OLD.id, OLD.state
        USING ERRCODE = 'integrity_constraint_violation';
END;
$$;
CREATE TRIGGER quote_forward BEFORE UPDATE OF state ON sales_quote
FOR EACH ROW WHEN (OLD.state <> 'open' AND NEW.state <> OLD.state) EXECUTE FUNCTION sales_state_forward();
CREATE TRIGGER contract_forward BEFORE UPDATE OF state, closed_at ON sales_contract
FOR EACH ROW WHEN (OLD.state <> 'active' AND (NEW.state, NEW.closed_at) IS DISTINCT FROM (OLD.state, OLD.closed_at))
EXECUTE FUNCTION sales_state_forward();
"""
BACKWARD = """
DROP TRIGGER contract_forward ON sales_contract;
DROP TRIGGER quote_forward ON sales_quote;
DROP FUNCTION sales_state_forward();
"""


class Migration(migrations.Migration):
    dependencies = [("sales", "0004_forms_frozen")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
