"""A published book never changes; only its open end may be closed."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION pricing_book_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE'
        AND upper_inf(OLD.effective) AND NOT upper_inf(NEW.effective)
        AND lower(NEW.effective) = lower(OLD.effective)
        AND to_jsonb(NEW) - 'effective' = to_jsonb(OLD) - 'effective'
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a published price book never changes; publish the next one'
        USING ERRCODE = 'integrity_constraint_violation';
END;
$$;
CREATE TRIGGER pricebook_frozen BEFORE UPDATE OR DELETE ON pricing_pricebook
FOR EACH ROW EXECUTE FUNCTION pricing_book_frozen();
"""
BACKWARD = "DROP TRIGGER pricebook_frozen ON pricing_pricebook; DROP FUNCTION pricing_book_frozen();"


class Migration(migrations.Migration):
    dependencies = [("pricing", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
