"""What the database refuses: changing what was quoted or agreed. Only states and what is left of a contract move."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION sales_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND to_jsonb(NEW) - TG_ARGV = to_jsonb(OLD) - TG_ARGV THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% never changes', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END;
$$;
CREATE TRIGGER quote_frozen BEFORE UPDATE OR DELETE ON sales_quote
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state');
CREATE TRIGGER contract_frozen BEFORE UPDATE OR DELETE ON sales_contract
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state', 'closed_at');
CREATE TRIGGER contractline_frozen BEFORE UPDATE OR DELETE ON sales_contractline
FOR EACH ROW EXECUTE FUNCTION sales_frozen('taken');
"""
BACKWARD = """
DROP TRIGGER contractline_frozen ON sales_contractline;
DROP TRIGGER contract_frozen ON sales_contract;
DROP TRIGGER quote_frozen ON sales_quote;
DROP FUNCTION sales_frozen();
"""


class Migration(migrations.Migration):
    dependencies = [("sales", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
