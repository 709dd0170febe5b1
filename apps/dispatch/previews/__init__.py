"""Previews of a job's outputs: a summary of every array, and one item shown as an image, as scores or as values.

Uses NumPy and an open file, but not Django. Reads only a bounded part of the file.
"""

from apps.dispatch.previews.arrays import NpzFile, StoredArray
from apps.dispatch.previews.items import Preview, preview
from apps.dispatch.previews.labels import labels_of
from apps.dispatch.previews.summaries import Summary, summaries

__all__ = ["NpzFile", "Preview", "StoredArray", "Summary", "labels_of", "preview", "summaries"]
