"""The form to create a webhook endpoint."""

from __future__ import annotations

from django import forms

from apps.notifications.webhooks.services import TOPICS


class EndpointForm(forms.Form):
    """A form for a new webhook endpoint."""

    url = forms.CharField(
        max_length=500,
        label="Address",
        help_text="The address must start with https:// and be reachable from the internet.",
    )
    topics = forms.MultipleChoiceField(
        choices=[(name, label) for name, (_, label) in TOPICS.items()],
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
        label="Events",
    )
