"""A trigger function that any room may put on a table whose rows must never change, and its first use."""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION takt_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are only ever added', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END;
$$;
"""
TRIGGER = """
CREATE TRIGGER audit_entry_append_only BEFORE UPDATE OR DELETE ON accounts_auditentry
FOR EACH ROW EXECUTE FUNCTION takt_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION takt_append_only()"),
        migrations.RunSQL(TRIGGER, "DROP TRIGGER audit_entry_append_only ON accounts_auditentry"),
    ]
