"""Which address Stripe was told for a customer."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0012_released_usage")]

    operations = [
        migrations.AddField(
            model_name="stripecustomer",
            name="email",
            field=models.CharField(blank=True, default="", max_length=254),
        )
    ]
