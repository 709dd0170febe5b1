"""Indexes by which the search finds names, digests and numbers: trigrams, so that a word within a name is found too.

They belong to tables of other rooms and are known to no model: the search alone reads them.
"""

from django.contrib.postgres.operations import TrigramExtension
from django.db import migrations

NAMES = {
    "registry_model": ("name",),
    "registry_modelversion": ("filename",),
    "registry_project": ("name",),
    "registry_dataset": ("name",),
    "planner_task": ("name",),
    "planner_plan": ("title",),
    "sales_quote": ("name",),
    "sales_contract": ("name",),
    "billing_invoice": ("number",),
}
DIGESTS = {
    "registry_dataset": "digest",
    "registry_modelversion": "sha256",
    "sales_quote": "digest",
    "sales_contract": "terms_digest",
    "billing_invoice": "digest",
}


def statements():
    """(create, drop) of each index. Django compares names in capitals, so the capitals are what is indexed."""
    for table, columns in NAMES.items():
        for column in columns:
            index = f"search_{table}_{column}"
            yield f"CREATE INDEX {index} ON {table} USING gin (upper({column}) gin_trgm_ops)", f"DROP INDEX {index}"
    for table, column in DIGESTS.items():
        index = f"search_{table}_digest"
        yield f"CREATE INDEX {index} ON {table} ({column})", f"DROP INDEX {index}"


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0004_confirmed"),
        ("billing", "0024_rooms"),
        ("compilation", "0004_requests"),
        ("planner", "0004_task_limit"),
        ("registry", "0004_data_sets"),
        ("sales", "0013_numbers"),
    ]

    operations = [TrigramExtension(), *(migrations.RunSQL(*pair) for pair in statements())]
