"""The API token that submitted a job, so that usage can be told by key. Jobs of before have none."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models.deletion import PROTECT


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_append_only"), ("dispatch", "0001_initial")]

    operations = [
        migrations.AddField(
            "job",
            "token",
            models.ForeignKey(null=True, on_delete=PROTECT, related_name="+", to="accounts.apitoken"),
        ),
    ]
