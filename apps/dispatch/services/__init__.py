"""Changes to jobs and leases, with one public function for each use case.

`jobs` creates and cancels jobs. `ending` ends jobs early and revokes leases. `stages` places stages in the timetable
and advances jobs. `leases` offers, takes, renews, completes, fails and returns leases.
"""

from apps.dispatch.services.ending import lease_revoke
from apps.dispatch.services.files import job_files_sweep
from apps.dispatch.services.jobs import Stored, items_most, job_cancel, job_create, job_fail
from apps.dispatch.services.labels import job_labels_add
from apps.dispatch.services.leases import (
    LeaseLost,
    lease_complete,
    lease_fail,
    lease_offer,
    lease_renew,
    lease_return,
    lease_take,
    leases_offer_due,
    leases_reoffer_silent,
)
from apps.dispatch.services.naming import job_rename
from apps.dispatch.services.samples import SampleOrder, sample_jobs_run
from apps.dispatch.services.stages import job_advance, jobs_advance_due, stage_place

__all__ = [
    "LeaseLost",
    "SampleOrder",
    "Stored",
    "items_most",
    "job_advance",
    "job_cancel",
    "job_create",
    "job_fail",
    "job_files_sweep",
    "job_labels_add",
    "job_rename",
    "jobs_advance_due",
    "lease_complete",
    "lease_fail",
    "lease_offer",
    "lease_renew",
    "lease_return",
    "lease_revoke",
    "lease_take",
    "leases_offer_due",
    "leases_reoffer_silent",
    "sample_jobs_run",
    "stage_place",
]
