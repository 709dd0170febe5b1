"""The room's models, whose tables migrations of the app billing made. Only the state changes."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0004_confirmed'),
        ('billing', '0024_rooms'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='StripeCheck',
                    fields=[
                        ('id', models.BigAutoField(primary_key=True, serialize=False)),
                        ('at', models.DateTimeField()),
                        ('rows', models.JSONField()),
                        ('differences', models.JSONField()),
                    ],
                    options={
                        'db_table': 'billing_stripecheck',
                        'ordering': ['-id'],
                    },
                ),
                migrations.CreateModel(
                    name='StripeCustomer',
                    fields=[
                        ('organisation', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='stripe_customer', serialize=False, to='accounts.organisation')),
                        ('customer_id', models.CharField(max_length=80, unique=True)),
                        ('email', models.CharField(blank=True, default='', max_length=254)),
                        ('payment_method', models.CharField(blank=True, max_length=80)),
                        ('method_label', models.CharField(blank=True, max_length=60)),
                        ('created_at', models.DateTimeField()),
                    ],
                    options={
                        'db_table': 'billing_stripecustomer',
                    },
                ),
                migrations.CreateModel(
                    name='StripeEvent',
                    fields=[
                        ('id', models.CharField(max_length=80, primary_key=True, serialize=False)),
                        ('type', models.CharField(max_length=80)),
                        ('created', models.DateTimeField()),
                        ('payload', models.JSONField()),
                        ('received_at', models.DateTimeField()),
                        ('handled_at', models.DateTimeField(blank=True, null=True)),
                        ('listed_at', models.DateTimeField(blank=True, null=True)),
                        ('attempts', models.PositiveIntegerField(default=0)),
                        ('next_at', models.DateTimeField(blank=True, null=True)),
                        ('error', models.CharField(blank=True, max_length=400)),
                    ],
                    options={
                        'db_table': 'billing_stripeevent',
                        'ordering': ['-created', '-id'],
                        'indexes': [models.Index(condition=models.Q(('handled_at', None)), fields=['created'], name='stripeevent_open')],
                    },
                ),
                migrations.CreateModel(
                    name='StripePush',
                    fields=[
                        ('invoice', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='stripe_push', serialize=False, to='billing.invoice')),
                        ('stripe_id', models.CharField(blank=True, db_index=True, max_length=80)),
                        ('state', models.CharField(choices=[('waiting', 'To be brought'), ('open', 'Open'), ('mismatch', 'Totals differ'), ('paid', 'Paid'), ('void', 'Void'), ('uncollectible', 'Uncollectible'), ('dropped', 'Not needed')], default='waiting', max_length=14)),
                        ('version', models.PositiveIntegerField(default=1)),
                        ('version_at', models.DateTimeField()),
                        ('ordered', models.BigIntegerField(null=True)),
                        ('included', models.JSONField(default=list)),
                        ('tried_at', models.DateTimeField(null=True)),
                        ('tell_at', models.DateTimeField(null=True)),
                        ('hosted_url', models.URLField(blank=True, max_length=500)),
                        ('error', models.CharField(blank=True, max_length=400)),
                    ],
                    options={
                        'db_table': 'billing_stripepush',
                        'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'mismatch', 'dropped']), models.Q(('stripe_id', ''), _negated=True), _connector='OR'), name='push_has_its_invoice')],
                    },
                ),
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
                        ('invoice', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='stripe_calls', to='billing.invoice')),
                        ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='stripe_calls', to='accounts.organisation')),
                    ],
                    options={
                        'db_table': 'billing_stripecall',
                        'ordering': ['id'],
                        'indexes': [models.Index(condition=models.Q(('settled_at', None)), fields=['invoice'], name='stripecall_open')],
                        'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('outcome', ''), ('settled_at', None)), models.Q(('settled_at__isnull', False), models.Q(('outcome', ''), _negated=True)), _connector='OR'), name='stripecall_settled_with_outcome')],
                    },
                ),
            ],
        ),
    ]
