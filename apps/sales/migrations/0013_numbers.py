"""Number the quotes and contracts of every organisation in the order in which they were made, and let customers name them.

One statement numbers a whole table. The triggers that freeze rows are away while it runs, and then let names change too.
"""

from django.db import migrations, models

NUMBER = """
UPDATE {table} SET number = numbered.number
FROM (SELECT id, row_number() OVER (PARTITION BY organisation_id ORDER BY {made}, id) AS number FROM {table}) AS numbered
WHERE numbered.id = {table}.id;
INSERT INTO accounts_counter (organisation_id, kind, last)
SELECT organisation_id, '{kind}', max(number) FROM {table} GROUP BY organisation_id;
"""
NUMBERS = NUMBER.format(table="sales_quote", made="created_at", kind="quote") + NUMBER.format(
    table="sales_contract", made="accepted_at", kind="contract"
)
FORGET = "DELETE FROM accounts_counter WHERE kind IN ('quote', 'contract');"
UNGUARDED = """
DROP TRIGGER quote_frozen ON sales_quote;
DROP TRIGGER contract_frozen ON sales_contract;
"""
GUARDED = """
CREATE TRIGGER quote_frozen BEFORE UPDATE OR DELETE ON sales_quote
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state', 'share_token', 'share_until'{name});
CREATE TRIGGER contract_frozen BEFORE UPDATE OR DELETE ON sales_contract
FOR EACH ROW EXECUTE FUNCTION sales_frozen('state', 'closed_at'{name});
"""


class Migration(migrations.Migration):
    dependencies = [("sales", "0012_contract_reviews"), ("accounts", "0005_counters")]

    operations = [
        migrations.AddField("quote", "number", models.PositiveIntegerField(null=True)),
        migrations.AddField("quote", "name", models.CharField(blank=True, default="", max_length=80)),
        migrations.AddField("contract", "number", models.PositiveIntegerField(null=True)),
        migrations.AddField("contract", "name", models.CharField(blank=True, default="", max_length=80)),
        migrations.RunSQL(UNGUARDED, GUARDED.format(name="")),
        migrations.RunSQL(NUMBERS, FORGET),
        migrations.RunSQL(GUARDED.format(name=", 'name'"), UNGUARDED),
        migrations.AlterField("quote", "number", models.PositiveIntegerField()),
        migrations.AlterField("contract", "number", models.PositiveIntegerField()),
        migrations.AddConstraint(
            "quote", models.UniqueConstraint(fields=["organisation", "number"], name="quote_number_once")
        ),
        migrations.AddConstraint(
            "contract", models.UniqueConstraint(fields=["organisation", "number"], name="contract_number_once")
        ),
    ]
