"""What of a contract's net its lines lack to the price book's minimum per contract; nothing under books without one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sales", "0006_commitments_by_currency")]

    operations = [
        migrations.AddField(
            model_name="contract",
            name="minimum",
            field=models.DecimalField(decimal_places=40, default=0, max_digits=72),
        ),
    ]
