"""Calls to Stripe are recorded before they are made; what was ordered, and what Stripe is still to be told."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0002_append_only'),
        ('billing', '0016_webhook_backoff'),
    ]

    operations = [
        migrations.CreateModel(
            name='StripeCall',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=200, unique=True)),
                ('operation', models.CharField(max_length=30)),
                ('target', models.CharField(blank=True, max_length=80)),
                ('parameters', models.JSONField()),
                ('made_at', models.DateTimeField()),
                ('broken_at', models.DateTimeField(null=True)),
                ('settled_at', models.DateTimeField(null=True)),
                ('outcome', models.CharField(blank=True, choices=[('acted', 'Done'), ('refused', 'Refused'), ('not_acted', 'Not done')], max_length=10)),
                ('object_id', models.CharField(blank=True, max_length=80)),
                ('error', models.CharField(blank=True, max_length=400)),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.RemoveConstraint(
            model_name='stripepush',
            name='push_has_its_invoice',
        ),
        # On the way back: what is not needed there waits again, and is never brought, since nothing of it is open.
        migrations.RunSQL(
            migrations.RunSQL.noop,
            "UPDATE billing_stripepush SET state = 'waiting' WHERE state = 'dropped';",
        ),
        migrations.AddField(
            model_name='stripepush',
            name='included',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='stripepush',
            name='ordered',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='stripepush',
            name='tell_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='stripepush',
            name='tried_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name='stripepush',
            name='state',
            field=models.CharField(choices=[('waiting', 'To be brought'), ('open', 'Open'), ('mismatch', 'Totals differ'), ('paid', 'Paid'), ('void', 'Void'), ('uncollectible', 'Uncollectible'), ('dropped', 'Not needed')], default='waiting', max_length=14),
        ),
        migrations.AddConstraint(
            model_name='stripepush',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'mismatch', 'dropped']), models.Q(('stripe_id', ''), _negated=True), _connector='OR'), name='push_has_its_invoice'),
        ),
        migrations.AddField(
            model_name='stripecall',
            name='invoice',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='stripe_calls', to='billing.invoice'),
        ),
        migrations.AddField(
            model_name='stripecall',
            name='organisation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='stripe_calls', to='accounts.organisation'),
        ),
        migrations.AddIndex(
            model_name='stripecall',
            index=models.Index(condition=models.Q(('settled_at', None)), fields=['invoice'], name='stripecall_open'),
        ),
        migrations.AddConstraint(
            model_name='stripecall',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('outcome', ''), ('settled_at', None)), models.Q(('settled_at__isnull', False), models.Q(('outcome', ''), _negated=True)), _connector='OR'), name='stripecall_settled_with_outcome'),
        ),
    ]
