"""Changes to compile jobs and programs. Import the functions from here."""

from apps.compilation.services.files import program_files_sweep
from apps.compilation.services.jobs import (
    compile_send,
    compiles_room,
    dims_checked,
    job_cancel,
    job_compare,
    job_create,
    job_retry,
)
from apps.compilation.services.processors import processor_add, processor_remove
from apps.compilation.services.requests import request_cancel, request_create
from apps.compilation.services.running import job_run, jobs_sweep

__all__ = [
    "compile_send",
    "compiles_room",
    "dims_checked",
    "job_cancel",
    "job_compare",
    "job_create",
    "job_retry",
    "job_run",
    "jobs_sweep",
    "processor_add",
    "processor_remove",
    "program_files_sweep",
    "request_cancel",
    "request_create",
]
