"""Forms of the model registry."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile


class FilesInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """A field of one or several files; its value is a list."""

    widget = FilesInput

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile[Any]]:
        return [super(FilesField, self).clean(one, initial) for one in data or [None]]


class UploadForm(forms.Form):
    """A form to upload a model in one request, for browsers without JavaScript."""

    file = FilesField(
        allow_empty_file=True,
        label="Model file (.onnx)",
        help_text="If the weights are in files beside the model, choose these files too.",
    )
    name = forms.CharField(max_length=120, required=False, label="Name", help_text="Default: the file's name.")
    project = forms.CharField(max_length=80, required=False, initial="Default", label="Project")
    compile = forms.BooleanField(
        required=False,
        initial=True,
        label="Compile right after the upload",
        help_text="Compiles for the first available processor, in float32, with suggested sizes for variable dimensions.",
    )
