from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('planner', '0003_places'),
    ]

    operations = [
        migrations.AddField(
            model_name='task',
            name='limit',
            field=models.DecimalField(blank=True, decimal_places=9, max_digits=18, null=True),
        ),
    ]
