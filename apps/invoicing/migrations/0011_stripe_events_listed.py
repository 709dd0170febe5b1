"""Which events a list has shown: deliveries may have gaps, lists have none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0010_disputes_and_checks")]

    operations = [
        migrations.AddField(
            model_name="stripeevent",
            name="listed_at",
            field=models.DateTimeField(blank=True, null=True),
        )
    ]
