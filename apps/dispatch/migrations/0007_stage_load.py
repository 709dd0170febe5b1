"""What loading a stage's program takes in each window; 0 for stages of contracts that reserved none."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("dispatch", "0006_device_hours"),
    ]

    operations = [
        migrations.AddField(
            model_name="jobstage",
            name="load_cycles",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
    ]
