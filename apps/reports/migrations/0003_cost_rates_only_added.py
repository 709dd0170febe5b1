"""What was believed about costs stays: rates are added, never changed; a finished rerating is never changed either."""

from django.db import migrations

RATES = """
CREATE TRIGGER costrate_append_only BEFORE UPDATE OR DELETE ON reports_costrate
FOR EACH ROW EXECUTE FUNCTION takt_append_only();
"""
RERATINGS = """
CREATE FUNCTION reports_rerating_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.finished_at IS NULL
        AND to_jsonb(NEW) - 'rows_done' - 'result' - 'finished_at' = to_jsonb(OLD) - 'rows_done' - 'result' - 'finished_at'
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a finished rerating never changes' USING ERRCODE = 'integrity_constraint_violation';
END;
$$;
CREATE TRIGGER rerating_frozen BEFORE UPDATE ON reports_rerating
FOR EACH ROW EXECUTE FUNCTION reports_rerating_frozen();
"""


class Migration(migrations.Migration):
    dependencies = [("reports", "0002_cost_rates_and_reratings")]

    operations = [
        migrations.RunSQL(RATES, "DROP TRIGGER costrate_append_only ON reports_costrate"),
        migrations.RunSQL(
            RERATINGS, "DROP TRIGGER rerating_frozen ON reports_rerating; DROP FUNCTION reports_rerating_frozen()"
        ),
    ]
