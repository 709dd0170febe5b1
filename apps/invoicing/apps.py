from django.apps import AppConfig


class InvoicingConfig(AppConfig):
    name = "apps.invoicing"
    label = "billing"  # the room's former name, by which its tables and the history of its migrations are known
