"""Share links end: those that 0.1.0 made for every quote work for 90 more days, then whoever needs one makes a new one."""

from datetime import timedelta

from django.db import migrations, models
from django.utils import timezone

LEGACY = timedelta(days=90)
FROZEN = """
DROP TRIGGER quote_frozen ON sales_quote;
CREATE TRIGGER quote_frozen BEFORE UPDATE OR DELETE ON sales_quote
FOR EACH ROW EXECUTE FUNCTION sales_frozen({columns});
"""


def links_limit(apps, schema_editor):
    quotes = apps.get_model("sales", "Quote").objects
    quotes.filter(share_token__isnull=False).update(share_until=timezone.now() + LEGACY)


class Migration(migrations.Migration):
    dependencies = [("sales", "0007_contract_minimum")]

    operations = [
        migrations.AddField("quote", "share_until", models.DateTimeField(null=True)),
        migrations.RunSQL(
            FROZEN.format(columns="'state', 'share_token', 'share_until'"),
            FROZEN.format(columns="'state', 'share_token'"),
        ),
        migrations.RunPython(links_limit, migrations.RunPython.noop),
    ]
