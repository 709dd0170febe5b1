"""The room's models, whose tables migrations of the app billing made. Only the state changes."""

import django.contrib.postgres.fields
import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0004_confirmed'),
        ('billing', '0024_rooms'),
        ('ledger', '0010_usage_sums'),
        ('registry', '0004_data_sets'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='Budget',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('amount', models.DecimalField(decimal_places=40, max_digits=72)),
                        ('currency', models.CharField(max_length=3)),
                        ('created_at', models.DateTimeField()),
                        ('deleted_at', models.DateTimeField(blank=True, null=True)),
                        ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='budgets', to='accounts.organisation')),
                        ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='registry.project')),
                        ('token', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.apitoken')),
                    ],
                    options={
                        'db_table': 'billing_budget',
                        'ordering': ['created_at', 'id'],
                    },
                ),
                migrations.CreateModel(
                    name='BudgetAlert',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('month', models.DateField()),
                        ('kind', models.CharField(choices=[('actual', 'Used so far'), ('forecast', 'Expected by the end of the month')], max_length=10)),
                        ('percent', models.PositiveSmallIntegerField()),
                        ('used', models.DecimalField(decimal_places=40, max_digits=72)),
                        ('at', models.DateTimeField()),
                        ('budget', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='alerts', to='notifications.budget')),
                    ],
                    options={
                        'db_table': 'billing_budgetalert',
                        'ordering': ['-at', '-percent', 'id'],
                    },
                ),
                migrations.CreateModel(
                    name='WebhookDelivery',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('topic', models.CharField(max_length=60)),
                        ('body', models.TextField()),
                        ('attempts', models.PositiveSmallIntegerField(default=0)),
                        ('created_at', models.DateTimeField()),
                        ('next_at', models.DateTimeField()),
                        ('claimed_until', models.DateTimeField(blank=True, null=True)),
                        ('delivered_at', models.DateTimeField(blank=True, null=True)),
                        ('dead_at', models.DateTimeField(blank=True, null=True)),
                        ('row', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='ledger.outboxrow')),
                    ],
                    options={
                        'db_table': 'billing_webhookdelivery',
                        'ordering': ['-created_at', 'id'],
                    },
                ),
                migrations.CreateModel(
                    name='WebhookAttempt',
                    fields=[
                        ('id', models.BigAutoField(primary_key=True, serialize=False)),
                        ('at', models.DateTimeField()),
                        ('status', models.PositiveSmallIntegerField(null=True)),
                        ('answer', models.CharField(blank=True, max_length=500)),
                        ('error', models.CharField(blank=True, max_length=300)),
                        ('delivery', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='tries', to='notifications.webhookdelivery')),
                    ],
                    options={
                        'db_table': 'billing_webhookattempt',
                        'ordering': ['id'],
                    },
                ),
                migrations.CreateModel(
                    name='WebhookEndpoint',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('url', models.CharField(max_length=500)),
                        ('secret', models.CharField(max_length=80)),
                        ('topics', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=20), size=None)),
                        ('is_active', models.BooleanField(default=True)),
                        ('created_at', models.DateTimeField()),
                        ('failing_since', models.DateTimeField(blank=True, null=True)),
                        ('failures', models.PositiveIntegerField(default=0)),
                        ('paused_until', models.DateTimeField(blank=True, null=True)),
                        ('last_attempt_at', models.DateTimeField(blank=True, null=True)),
                        ('prompt_at', models.DateTimeField(blank=True, null=True)),
                        ('disabled_at', models.DateTimeField(blank=True, null=True)),
                        ('deleted_at', models.DateTimeField(blank=True, null=True)),
                        ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='webhook_endpoints', to='accounts.organisation')),
                    ],
                    options={
                        'db_table': 'billing_webhookendpoint',
                        'ordering': ['created_at', 'id'],
                    },
                ),
                migrations.AddField(
                    model_name='webhookdelivery',
                    name='endpoint',
                    field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='notifications.webhookendpoint'),
                ),
                migrations.AddConstraint(
                    model_name='budget',
                    constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0)), name='budget_is_something'),
                ),
                migrations.AddConstraint(
                    model_name='budget',
                    constraint=models.CheckConstraint(condition=models.Q(('project__isnull', True), ('token__isnull', True), _connector='OR'), name='budget_one_scope'),
                ),
                migrations.AddConstraint(
                    model_name='budgetalert',
                    constraint=models.UniqueConstraint(fields=('budget', 'month', 'kind', 'percent'), name='budgetalert_once'),
                ),
                migrations.AddIndex(
                    model_name='webhookdelivery',
                    index=models.Index(condition=models.Q(('dead_at__isnull', True), ('delivered_at__isnull', True)), fields=['endpoint', 'next_at'], name='webhookdelivery_due'),
                ),
                migrations.AddConstraint(
                    model_name='webhookdelivery',
                    constraint=models.UniqueConstraint(fields=('endpoint', 'row'), name='webhookdelivery_once'),
                ),
            ],
        ),
    ]
