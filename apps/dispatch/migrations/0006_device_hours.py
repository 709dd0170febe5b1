"""Device time added up by hours, so that a month's revenue reads as many rows as there are hours."""

import django.db.models.deletion
from django.db import migrations, models

# A host has no clock of cycles: there they are microseconds. The class is the one that was served, by the usage row, which
# is posted before its lease is done; a lease without one counts by the class that was sold.
OF_LEASE = """
    SELECT date_trunc('hour', lease.device_from, 'UTC') AS hour, device.pool_id, job.organisation_id,
        coalesce(used.klass, reservation.klass) AS klass,
        CASE WHEN pool.kind = 'host' THEN 1000000 ELSE stage.clock_hz END AS clock_hz,
        CASE WHEN pool.kind = 'host'
            THEN (1000000 * extract(epoch FROM lease.device_to - lease.device_from))::bigint
            ELSE lease.next_cycle - lease.first_cycle END AS cycles,
        lease.device_to
    FROM {leases} AS lease
    JOIN public.fleet_device AS device ON device.id = lease.device_id
    JOIN public.fleet_pool AS pool ON pool.id = device.pool_id
    JOIN public.timetable_window AS win ON win.id = lease.window_id
    JOIN public.timetable_reservation AS reservation ON reservation.id = win.reservation_id
    JOIN public.dispatch_jobstage AS stage ON stage.id = lease.stage_id
    JOIN public.dispatch_job AS job ON job.id = stage.job_id
    LEFT JOIN public.ledger_usagerow AS used ON used.organisation_id = job.organisation_id
        AND used.occurred_from = lease.device_from AND used.lease_id = lease.id
"""
KEY = "hour, pool_id, organisation_id, klass, clock_hz"
SUMS = f"""
    INSERT INTO public.dispatch_devicehour AS known ({KEY}, cycles, leases, until)
    SELECT {KEY}, sum(cycles), count(*), max(device_to) FROM ({OF_LEASE}) AS one WHERE {{only}} GROUP BY {KEY}
"""
ADD = f"""
    ON CONFLICT ({KEY}) DO UPDATE SET cycles = known.cycles + excluded.cycles, leases = known.leases + excluded.leases,
        until = greatest(known.until, excluded.until)
"""
FILL = SUMS.format(leases="(SELECT * FROM public.dispatch_lease WHERE state = 'done')", only="true")
TRIGGER = f"""
CREATE FUNCTION dispatch_devicehour_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {SUMS.format(leases="(SELECT (fresh.lease).* FROM (SELECT NEW AS lease) AS fresh)", only="true")} {ADD};
    RETURN NULL;
END;
$$;
CREATE FUNCTION dispatch_devicehour_take() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.dispatch_devicehour AS known SET cycles = known.cycles - one.cycles, leases = known.leases - 1
    FROM ({OF_LEASE.format(leases="(SELECT (gone.lease).* FROM (SELECT OLD AS lease) AS gone)")}) AS one
    WHERE (known.hour, known.pool_id, known.organisation_id, known.klass, known.clock_hz)
        = (one.hour, one.pool_id, one.organisation_id, one.klass, one.clock_hz);
    RETURN NULL;
END;
$$;
CREATE TRIGGER lease_hour_new AFTER INSERT ON dispatch_lease
FOR EACH ROW WHEN (NEW.state = 'done') EXECUTE FUNCTION dispatch_devicehour_add();
CREATE TRIGGER lease_hour_gone AFTER UPDATE ON dispatch_lease
FOR EACH ROW WHEN (OLD.state = 'done') EXECUTE FUNCTION dispatch_devicehour_take();
CREATE TRIGGER lease_hour_kept AFTER UPDATE ON dispatch_lease
FOR EACH ROW WHEN (NEW.state = 'done') EXECUTE FUNCTION dispatch_devicehour_add();
CREATE TRIGGER lease_hour_removed AFTER DELETE ON dispatch_lease
FOR EACH ROW WHEN (OLD.state = 'done') EXECUTE FUNCTION dispatch_devicehour_take();
"""
DROP = """
DROP TRIGGER lease_hour_removed ON dispatch_lease; DROP TRIGGER lease_hour_kept ON dispatch_lease;
DROP TRIGGER lease_hour_gone ON dispatch_lease; DROP TRIGGER lease_hour_new ON dispatch_lease;
DROP FUNCTION dispatch_devicehour_take(); DROP FUNCTION dispatch_devicehour_add();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("dispatch", "0005_leases_looked_up"),
        ("ledger", "0010_usage_sums"),
        ("timetable", "0001_initial"),
        ("fleet", "0002_device_ownership"),
        ("accounts", "0001_initial"),
    ]

    operations = [
        migrations.AddIndex(
            "lease",
            models.Index(condition=models.Q(("state", "done")), fields=["device_from"], name="lease_done_from"),
        ),
        migrations.CreateModel(
            name="DeviceHour",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("hour", models.DateTimeField()),
                ("klass", models.CharField(max_length=20)),
                ("clock_hz", models.BigIntegerField()),
                ("cycles", models.DecimalField(decimal_places=0, max_digits=40)),
                ("leases", models.BigIntegerField()),
                ("until", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.organisation"
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="fleet.pool"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("hour", "pool", "organisation", "klass", "clock_hz"), name="devicehour_once"
                    )
                ],
                "indexes": [models.Index(fields=["until"], name="devicehour_by_end")],
            },
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.RunSQL(TRIGGER, DROP),
    ]
