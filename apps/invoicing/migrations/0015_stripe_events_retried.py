"""When an event that could not be handled is tried again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0014_credits_that_were_ended")]

    operations = [
        migrations.AddField(
            model_name="stripeevent",
            name="next_at",
            field=models.DateTimeField(blank=True, null=True),
        )
    ]
