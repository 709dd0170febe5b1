"""The API's document, as clients read it; it takes a second to make, so the tests make it once."""

from __future__ import annotations

import json
from typing import Any

from apps.config.api import api

DOCUMENT: dict[str, Any] = json.loads(json.dumps(api.get_openapi_schema(), default=str))
