"""Indexes for what pages ask of leases: those that ended on a device lately, were taken lately, or are not billed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dispatch", "0004_job_seed")]

    operations = [
        migrations.AddIndex("lease", models.Index(fields=["device", "device_to"], name="lease_ended_on_device")),
        migrations.AddIndex("lease", models.Index(fields=["taken_at"], name="lease_by_taking")),
        migrations.AddIndex(
            "lease",
            models.Index(
                condition=models.Q(("state__in", ["revoked", "failed"]), ("epoch__gt", 1), _connector="OR"),
                fields=["finished_at"],
                name="lease_not_billed",
            ),
        ),
    ]
