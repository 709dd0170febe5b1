"""Services that change models, uploads and data sets. Import the services from this package."""

from apps.registry.services.checks import checks_sweep, refusal_of, upload_check_next
from apps.registry.services.data_sets import dataset_add, dataset_delete
from apps.registry.services.evaluations import Answered, evaluation_record, evaluation_store
from apps.registry.services.files import model_files_sweep
from apps.registry.services.uploads import upload_cancel, upload_chunk_put, upload_complete, upload_open, uploads_sweep
from apps.registry.services.versions import (
    KEEPERS,
    model_file_add,
    project_ensure,
    sample_add,
    version_delete,
)

__all__ = [
    "KEEPERS",
    "Answered",
    "checks_sweep",
    "dataset_add",
    "dataset_delete",
    "evaluation_record",
    "evaluation_store",
    "model_file_add",
    "model_files_sweep",
    "project_ensure",
    "refusal_of",
    "sample_add",
    "upload_cancel",
    "upload_check_next",
    "upload_chunk_put",
    "upload_complete",
    "upload_open",
    "uploads_sweep",
    "version_delete",
]
