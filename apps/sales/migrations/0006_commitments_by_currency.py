"""One commitment at a time in each currency: one whose prices are no longer in force keeps no other back."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("sales", "0005_states_forward")]

    operations = [
        migrations.RemoveConstraint("commitment", "commitment_one_in_force"),
        migrations.AddConstraint(
            "commitment",
            ExclusionConstraint(
                name="commitment_one_in_each_currency",
                expressions=[("organisation", "="), ("currency", "="), ("period", "&&")],
            ),
        ),
    ]
