"""Number the jobs of every organisation in the order in which they were submitted, and let customers name them."""

from django.db import migrations, models

NUMBERS = """
UPDATE dispatch_job SET number = numbered.number
FROM (
    SELECT id, row_number() OVER (PARTITION BY organisation_id ORDER BY submitted_at, id) AS number FROM dispatch_job
) AS numbered
WHERE numbered.id = dispatch_job.id;
INSERT INTO accounts_counter (organisation_id, kind, last)
SELECT organisation_id, 'job', max(number) FROM dispatch_job GROUP BY organisation_id;
"""
FORGET = "DELETE FROM accounts_counter WHERE kind = 'job';"


class Migration(migrations.Migration):
    dependencies = [("dispatch", "0009_sample_jobs"), ("accounts", "0005_counters")]

    operations = [
        migrations.AddField("job", "number", models.PositiveIntegerField(null=True)),
        migrations.AddField("job", "name", models.CharField(blank=True, default="", max_length=80)),
        migrations.RunSQL(NUMBERS, FORGET),
        migrations.AlterField("job", "number", models.PositiveIntegerField()),
        migrations.AddConstraint(
            "job", models.UniqueConstraint(fields=["organisation", "number"], name="job_number_once")
        ),
    ]
