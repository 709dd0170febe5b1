"""Whether a lease failed through the platform. Those of before were all taken for such."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dispatch", "0002_job_token")]

    operations = [
        migrations.AddField("lease", "is_missed", models.BooleanField(default=False)),
        migrations.RunSQL(
            "UPDATE dispatch_lease SET is_missed = true WHERE state = 'failed'", migrations.RunSQL.noop, elidable=True
        ),
        migrations.AddConstraint(
            "lease",
            models.CheckConstraint(
                condition=models.Q(is_missed=False) | models.Q(state="failed"), name="lease_missed_has_failed"
            ),
        ),
    ]
