"""Whoever had an account in 0.1.0 counts as having confirmed the address: docs/adr/0059 says why."""

from django.db import migrations


def confirm(apps, schema_editor):
    User, EmailAddress = apps.get_model("accounts", "User"), apps.get_model("account", "EmailAddress")
    missing = User.objects.exclude(pk__in=EmailAddress.objects.values("user")).values_list("pk", "email")
    EmailAddress.objects.bulk_create(
        [EmailAddress(user_id=pk, email=email, primary=True, verified=True) for pk, email in missing.iterator()],
        batch_size=1000,
    )


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_mail"), ("account", "0009_emailaddress_unique_primary_email")]
    operations = [migrations.RunPython(confirm, migrations.RunPython.noop)]
