"""Static files from the image, artefacts through Django's storage API: the file system, or S3-compatible."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from apps.config import env
from apps.config.settings.core import BASE_DIR, DEBUG

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = env.text("STATIC_ROOT", str(BASE_DIR / "var" / "static"))
MEDIA_ROOT = env.text("MEDIA_ROOT", str(BASE_DIR / "var" / "media"))
# A download is always a view that has checked who asks; nothing is served from here by address.
MEDIA_URL = "/media-is-not-served/"


def _artefacts() -> dict[str, Any]:
    """STORAGE_URL is `file` (then MEDIA_ROOT), `file:///a/folder`, or the endpoint of an S3-compatible store."""
    url = env.text("STORAGE_URL", "file")
    if url == "file":
        return {"BACKEND": "django.core.files.storage.FileSystemStorage"}
    if url.startswith("file:///"):
        options: dict[str, Any] = {"location": url.removeprefix("file://")}
        return {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    if not url.startswith(("http://", "https://")):
        raise ImproperlyConfigured(f"STORAGE_URL must be file, file:///folder, http:// or https://; it is {url!r}.")
    options = {
        "endpoint_url": url,
        "bucket_name": env.text("STORAGE_BUCKET"),
        "access_key": env.text("STORAGE_ACCESS_KEY"),
        "secret_key": env.text("STORAGE_SECRET_KEY"),
        "region_name": env.text("STORAGE_REGION", "us-east-1"),
        "default_acl": "private",
        "file_overwrite": False,
        "querystring_auth": True,
    }
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}


_HASHED = "whitenoise.storage.CompressedManifestStaticFilesStorage"
_PLAIN = "django.contrib.staticfiles.storage.StaticFilesStorage"
STORAGES = {
    "default": _artefacts(),
    "staticfiles": {"BACKEND": _HASHED if env.flag("STATIC_HASHED", default=False) else _PLAIN},
}
WHITENOISE_USE_FINDERS = not env.flag("STATIC_HASHED", default=False)
WHITENOISE_AUTOREFRESH = DEBUG

# A chunk of an upload is at most this; larger bodies are refused before they are read.
DATA_UPLOAD_MAX_MEMORY_SIZE = env.integer("CHUNK_BYTES_MAX", 8 * 1024 * 1024)
UPLOAD_BYTES_MAX = env.integer("UPLOAD_BYTES_MAX", 512 * 1024 * 1024)
