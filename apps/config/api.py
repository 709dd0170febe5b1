"""The JSON API at `/api/v1`, with an OpenAPI 3.1 document and errors as problem+json.

An operation requires authentication unless it opts out.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema

from apps.accounts.auth import BearerToken, BrowserSession
from apps.accounts.outages import unavailable_of
from apps.accounts.problems import PROBLEM_STATUSES, STANDARD, Problem, ProblemBody, problem_response, problem_standard
from apps.config.failures import defect_problem
from apps.config.parser import WithoutNul, names_known
from apps.config.reference import Reference
from apps.pricing.amounts import AMOUNT, AMOUNT_SENTENCE

log = structlog.get_logger("api")


class Document(OpenAPISchema):
    """Ninja's OpenAPI document. Raises TypeError if two different schemas have the same name."""

    def add_schema_definitions(self, definitions: dict[str, Any]) -> None:
        for name, definition in definitions.items():
            if self.schemas.get(name, definition) != definition:
                raise TypeError(f"Two schemas of the API are called {name}; give one of the classes another name.")
        super().add_schema_definitions(definitions)


class TaktAPI(NinjaAPI):
    """The API, whose OpenAPI document also lists the errors common to all operations."""

    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        schema = Document(self, kwargs.get("path_prefix") or self.get_root_path(kwargs.get("path_params") or {}))
        schema.setdefault("components", {}).setdefault("schemas", {})["Problem"] = ProblemBody.model_json_schema()
        reference = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        for operations in schema["paths"].values():
            for operation in operations.values():
                for status, description in PROBLEM_STATUSES.items():
                    operation["responses"][status] = {"description": description, "content": reference}
                for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                    if kind != "application/json":  # a form; bodies in JSON say it themselves
                        content["schema"]["additionalProperties"] = False
        return schema


api = TaktAPI(
    title="Takt",
    version="1",
    description="Compile models, get quotes, run jobs and read invoices.",
    urls_namespace="api",
    auth=[BearerToken(), BrowserSession()],
    docs=Reference(),
    docs_url="/docs",
    parser=WithoutNul(),
)

names_known()
for room in settings.ROOMS:
    if find_spec(f"apps.{room}.api"):
        api.add_router("", f"apps.{room}.api.router")


@api.exception_handler(Problem)
def _problem(request: HttpRequest, error: Problem) -> HttpResponse:
    return problem_response(error)


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = [_fault(item) for item in error.errors]
    detail = "; ".join(f"{item['field']}: {item['message']}" for item in errors[:5])
    return problem_response(
        Problem(422, "The request does not match its schema", detail, kind="request-invalid", errors=errors)
    )


def _fault(item: dict[str, Any]) -> dict[str, str]:
    if "loc" in item:
        named = item["loc"][2:] if item["loc"][:2] == ("body", "payload") else item["loc"]
        pattern = item.get("ctx", {}).get("pattern")
        message = AMOUNT_SENTENCE if pattern == AMOUNT else item["msg"].removeprefix("Value error, ")
        return {"field": ".".join(str(part) for part in named) or "body", "message": message}
    field, message = next(iter(item.items()), ("request", "cannot be read"))
    return {"field": str(field), "message": str(message)}


@api.exception_handler(AuthenticationError)
def _anonymous(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    detail = "Send a token as 'Authorization: Bearer ...'; create one under Settings, API tokens."
    response = problem_response(Problem(401, "Not signed in", detail, kind="not-signed-in"))
    response["WWW-Authenticate"] = "Bearer"
    return response


@api.exception_handler(PermissionDenied)
def _forbidden(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    return problem_response(
        Problem(403, "Not allowed", str(error) or "Your role does not allow this.", kind="not-allowed")
    )


@api.exception_handler(Http404)
def _missing(request: HttpRequest, error: Http404) -> HttpResponse:
    return problem_response(problem_standard(404))


@api.exception_handler(RequestDataTooBig)
def _too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return problem_response(problem_standard(413))


def _unreadable(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    kind, title, _ = STANDARD[400]
    return problem_response(Problem(400, title, str(error) or title, kind=kind))


for unreadable in (MultiPartParserError, SuspiciousOperation, UnreadablePostError):
    api.add_exception_handler(unreadable, _unreadable)


@api.exception_handler(HttpError)
def _http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    if isinstance(error.__cause__, Problem):  # ninja wraps whatever its parser raises
        return problem_response(error.__cause__)
    return problem_response(Problem(error.status_code, "Refused", str(error), kind="request-refused"))


@api.exception_handler(Exception)
def _defect(request: HttpRequest, error: Exception) -> HttpResponse:
    outage = unavailable_of(error)
    if outage is not None:
        log.warning("outage", path=request.path, error=f"{type(error).__name__}: {error}"[:200])
        return problem_response(outage)
    log.error("defect", path=request.path, exc_info=error)
    return problem_response(defect_problem(request))
