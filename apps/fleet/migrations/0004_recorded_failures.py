from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("fleet", "0003_fleet_as_data")]

    operations = [migrations.AddField("fleetchange", "lost", models.JSONField(default=list, db_default=models.Value([], models.JSONField())))]
