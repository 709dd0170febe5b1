"""The index by which the search finds jobs by their names."""

from django.db import migrations

CREATE = "CREATE INDEX search_dispatch_job_name ON dispatch_job USING gin (upper(name) gin_trgm_ops)"
DROP = "DROP INDEX search_dispatch_job_name"


class Migration(migrations.Migration):
    dependencies = [("pages", "0002_saved_filters"), ("dispatch", "0010_numbers")]

    operations = [migrations.RunSQL(CREATE, DROP)]
