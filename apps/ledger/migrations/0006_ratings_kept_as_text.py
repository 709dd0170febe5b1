"""The rating of a usage row is kept as the text that its digest is over; whether it is of unused work has a column."""

from django.db import migrations, models

import apps.ledger.fields

# A change of type rewrites the table without its triggers, so the guard against updates need not rest.
FILL = """
ALTER TABLE ledger_usagerow ADD COLUMN unused boolean;
ALTER TABLE ledger_usagerow ALTER COLUMN unused TYPE boolean USING (rating->>'unused')::boolean;
ALTER TABLE ledger_usagerow ALTER COLUMN unused SET NOT NULL;
"""
UNFILL = "ALTER TABLE ledger_usagerow DROP COLUMN unused;"
# Rows are read whole and never changed: neither pressed together nor moved aside, a rating is written once and in place.
# pglz takes half of what a row costs.
PLAIN = """
ALTER TABLE ledger_usagerow ALTER COLUMN rating SET STORAGE EXTERNAL;
ALTER TABLE ledger_usagerow SET (toast_tuple_target = 8160);
"""
PRESSED = """
ALTER TABLE ledger_usagerow RESET (toast_tuple_target);
ALTER TABLE ledger_usagerow ALTER COLUMN rating SET STORAGE EXTENDED;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0005_rows_checked_by_statement")]

    operations = [
        migrations.RunSQL(
            FILL,
            UNFILL,
            state_operations=[
                migrations.AddField("usagerow", "unused", models.BooleanField(), preserve_default=False),
            ],
        ),
        migrations.AlterField("usagerow", "rating", apps.ledger.fields.DocumentField()),
        migrations.RunSQL(PLAIN, PRESSED),
    ]
