from django.db import migrations, models

NOTHING = models.Value({}, models.JSONField())


class Migration(migrations.Migration):
    dependencies = [("compilation", "0005_bfloat16")]

    operations = [
        migrations.AddField("compilejob", "options", models.JSONField(db_default=NOTHING, default=dict)),
        migrations.AddField("program", "options", models.JSONField(db_default=NOTHING, default=dict)),
        migrations.AddField("program", "sequence", models.JSONField(db_default=NOTHING, default=dict)),
    ]
