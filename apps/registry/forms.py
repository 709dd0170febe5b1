"""Forms of the model registry."""

from __future__ import annotations

from django import forms


class UploadForm(forms.Form):
    """A form to upload a whole file in one request, for browsers without JavaScript."""

    file = forms.FileField(allow_empty_file=True, label="Model file (.onnx)")
    name = forms.CharField(max_length=120, required=False, label="Name", help_text="Default: the file's name.")
    project = forms.CharField(max_length=80, required=False, initial="Default", label="Project")
    compile = forms.BooleanField(
        required=False,
        initial=True,
        label="Compile right after the upload",
        help_text="Compiles for the first available processor, in float32, with suggested sizes for variable dimensions.",
    )
