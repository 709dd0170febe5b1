"""Windows of a device in the order of time: the walk to the first free time."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("timetable", "0002_reservations_held"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="window",
            index=models.Index(fields=["device", "period"], condition=models.Q(state="active"), name="window_by_time"),
        ),
    ]
