"""Previews of a job's outputs: a summary of every array, and one item as an image, as scores or as values.

Pure: NumPy and an open file, no Django. Only a bounded part of the file is read, however large it is.
"""

from apps.dispatch.previews.arrays import NpzFile, StoredArray
from apps.dispatch.previews.items import Preview, preview
from apps.dispatch.previews.labels import labels_of
from apps.dispatch.previews.summaries import Summary, summaries

__all__ = ["NpzFile", "Preview", "StoredArray", "Summary", "labels_of", "preview", "summaries"]
