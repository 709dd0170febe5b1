"""What people enter about an endpoint."""

from __future__ import annotations

from django import forms

from apps.notifications.webhooks.services import TOPICS


class EndpointForm(forms.Form):
    """A new endpoint."""

    url = forms.CharField(
        max_length=500, label="Address", help_text="Begins with https:// and is reachable from outside."
    )
    topics = forms.MultipleChoiceField(
        choices=[(name, said) for name, (_, said) in TOPICS.items()],
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
        label="Tell it about",
    )
