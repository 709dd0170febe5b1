"""Settings for storage. Static files come from the image. Artefacts are stored in the file system or an S3-compatible
store.
"""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from apps.config import env
from apps.config.settings.core import BASE_DIR, DEBUG

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = env.text("STATIC_ROOT", str(BASE_DIR / "var" / "static"))
MEDIA_ROOT = env.text("MEDIA_ROOT", str(BASE_DIR / "var" / "media"))
# Files are never served by address: every download is a view that checks permissions.
MEDIA_URL = "/media-is-not-served/"


def _artefacts() -> dict[str, Any]:
    # STORAGE_URL is `file` for MEDIA_ROOT, `file:///a/folder`, or the endpoint of an S3-compatible store.
    url = env.text("STORAGE_URL", "file")
    if url == "file":
        return {"BACKEND": "apps.accounts.storages.FolderStorage"}
    if url.startswith("file:///"):
        options: dict[str, Any] = {"location": url.removeprefix("file://")}
        return {"BACKEND": "apps.accounts.storages.FolderStorage", "OPTIONS": options}
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
        "max_memory_size": 8 * 1024 * 1024,  # a larger file is read from a temporary file on disk
    }
    return {"BACKEND": "apps.accounts.bucket.BucketStorage", "OPTIONS": options}


_HASHED = "whitenoise.storage.CompressedManifestStaticFilesStorage"
_PLAIN = "django.contrib.staticfiles.storage.StaticFilesStorage"
STORAGES = {
    "default": _artefacts(),
    "staticfiles": {"BACKEND": _HASHED if env.flag("STATIC_HASHED", default=False) else _PLAIN},
}
WHITENOISE_USE_FINDERS = not env.flag("STATIC_HASHED", default=False)
WHITENOISE_AUTOREFRESH = DEBUG

# With less free space, files are refused and /readyz fails: PostgreSQL and Valkey may share the disk.
FREE_BYTES_MIN = env.integer("FREE_BYTES_MIN", 256 * 1024 * 1024)
# Other folders whose disks /readyz checks, such as the servers' data.
FREE_SPACE_FOLDERS = env.words("FREE_SPACE_FOLDERS", [])

# The maximum size of an upload's chunk. Larger bodies are refused before they are read.
DATA_UPLOAD_MAX_MEMORY_SIZE = env.integer("CHUNK_BYTES_MAX", 8 * 1024 * 1024)
UPLOAD_BYTES_MAX = env.integer("UPLOAD_BYTES_MAX", 512 * 1024 * 1024)
# Address space of the processes that check and compile a model. Mapped weights count, so they need room for the largest model.
CHECK_MEMORY_BYTES = env.integer("CHECK_MEMORY_BYTES", 4 * 2**30 + UPLOAD_BYTES_MAX)
COMPILE_MEMORY_BYTES = env.integer("COMPILE_MEMORY_BYTES", 8 * 2**30 + 3 * UPLOAD_BYTES_MAX)
# A second more for every 5 MB by which the largest upload is above the usual 512 MiB.
COMPILE_SECONDS_MAX = env.integer("COMPILE_SECONDS_MAX", 540 + max(0, UPLOAD_BYTES_MAX - 512 * 2**20) // 5_000_000)
