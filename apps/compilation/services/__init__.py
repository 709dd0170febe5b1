"""What changes compile jobs and programs. One public function per use case; callers import them from here."""

from apps.compilation.services.jobs import dims_checked, job_cancel, job_compare, job_create, job_retry
from apps.compilation.services.processors import processor_add, processor_remove
from apps.compilation.services.running import job_run, jobs_sweep

__all__ = [
    "dims_checked", "job_cancel", "job_compare", "job_create", "job_retry", "job_run", "jobs_sweep", "processor_add",
    "processor_remove",
]  # fmt: skip
