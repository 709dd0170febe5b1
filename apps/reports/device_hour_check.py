"""Check that the stored device time of each hour is the sum of the leases."""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from apps.fleet.models import PoolKind

_DIFFERS = """
SELECT to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), pool.slug, klass FROM (
    SELECT date_trunc('hour', lease.device_from, 'UTC') AS hour, device.pool_id,
        coalesce(used.klass, reservation.klass) AS klass,
        CASE WHEN pool.kind = %(host)s THEN 1000000 ELSE stage.clock_hz END AS clock_hz,
        sum(CASE WHEN pool.kind = %(host)s
            THEN (1000000 * extract(epoch FROM lease.device_to - lease.device_from))::bigint
            ELSE lease.next_cycle - lease.first_cycle END) AS cycles,
        count(*) AS leases, max(lease.device_to) AS until
    FROM dispatch_job AS job
    JOIN dispatch_jobstage AS stage ON stage.job_id = job.id
    JOIN dispatch_lease AS lease ON lease.stage_id = stage.id AND lease.state = 'done'
    JOIN fleet_device AS device ON device.id = lease.device_id
    JOIN fleet_pool AS pool ON pool.id = device.pool_id
    JOIN timetable_window AS win ON win.id = lease.window_id
    JOIN timetable_reservation AS reservation ON reservation.id = win.reservation_id
    LEFT JOIN ledger_usagerow AS used ON used.organisation_id = job.organisation_id
        AND used.occurred_from = lease.device_from AND used.lease_id = lease.id
    WHERE job.organisation_id = %(organisation)s GROUP BY 1, 2, 3, 4
) AS summed FULL JOIN (
    SELECT hour, pool_id, klass, clock_hz, cycles, leases, until FROM dispatch_devicehour
    WHERE organisation_id = %(organisation)s AND (leases <> 0 OR cycles <> 0)
) AS kept USING (hour, pool_id, klass, clock_hz)
JOIN fleet_pool AS pool ON pool.id = pool_id
WHERE (summed.cycles, summed.leases) IS DISTINCT FROM (kept.cycles, kept.leases)
    OR kept.until < summed.until  -- later is harmless: the hour is then read lease by lease
ORDER BY 1, 2, 3 LIMIT %(limit)s
"""


def device_hour_faults(organisation_id: UUID, *, limit: int) -> list[str]:
    """Return a sentence for each pool, class and hour whose stored device time is not the sum of the leases. `limit` is
    the maximum number of sentences.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DIFFERS, {"organisation": organisation_id, "host": PoolKind.HOST, "limit": limit})
        return [
            f"the stored device time of the hour from {hour}, class {klass} on {pool}, is not the sum of its leases"
            for hour, pool, klass in cursor.fetchall()
        ]
