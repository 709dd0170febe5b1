from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("timetable", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="reservation", name="held_until", field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("held_until__isnull", False), ("state", "active")), fields=["pool", "held_until"],
                name="reservation_held",
            ),
        ),
    ]
