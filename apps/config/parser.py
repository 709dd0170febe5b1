"""Parses API requests. Refuses unknown names and NUL characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from django.utils.datastructures import MultiValueDict
from ninja.operation import Operation
from ninja.params.models import FileModel, FormModel, ParamModel, QueryModel
from ninja.parser import Parser

from apps.accounts.bodies import unknown_names, unknown_said
from apps.accounts.problems import Problem

NUL = "\0"
CONTAINERS_MAX = 250_000


class WithoutNul(Parser):
    """Ninja's parser, extended to refuse text with NUL characters (422) and bodies with too many lists and objects
    (413).
    """

    def parse_body(self, request: HttpRequest) -> Any:
        if request.body.count(b"[") + request.body.count(b"{") > CONTAINERS_MAX:
            raise Problem(
                413,
                "Too many lists",
                f"A JSON body can contain at most {CONTAINERS_MAX:,} lists and objects; send the inputs as a .npz "
                "file, or split them over several requests.",
                kind="body-too-large",
            )
        body = super().parse_body(request)
        # Only a body that can hold one is searched: written as an escape, or as the byte itself.
        if (b"\\u0000" in request.body or b"\0" in request.body) and _has_nul(body):
            raise _refusal()
        return body

    def parse_querydict(self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest) -> Any:
        if any(isinstance(value, str) and NUL in value for _, values in data.lists() for value in values):
            raise _refusal()
        return super().parse_querydict(data, list_fields, request)


def names_known() -> None:
    """Make every operation refuse unknown parameters, which ninja would ignore."""
    for model, given, what in (
        (QueryModel, "GET", "parameter"),
        (FormModel, "POST", "field"),
        (FileModel, "FILES", "file"),
    ):
        if "strict" not in vars(model):
            _strict(model, given, what)
    if "strict" not in vars(Operation):
        _strict_without(Operation)


def _strict_without(operation: type[Operation]) -> None:
    # Ninja does not read the query for operations without query parameters.
    lenient = operation._get_values

    def get_values(self: Operation, request: HttpRequest, *given: Any) -> Any:
        if not any(issubclass(model, QueryModel) for model in self.models):
            _refuse_unknown(request.GET, (), "parameter")
        return lenient(self, request, *given)

    operation._get_values = get_values  # type: ignore[method-assign,assignment]
    operation.strict = True  # type: ignore[attr-defined]


def _strict(model: type[ParamModel], given: str, what: str) -> None:
    lenient = model.get_request_data.__func__  # type: ignore[attr-defined]

    def get_request_data(cls: type[ParamModel], request: HttpRequest, api: Any, path_params: dict[str, Any]) -> Any:
        known = getattr(cls, "__ninja_flatten_map__", None) or cls.model_fields
        _refuse_unknown(getattr(request, given), known, what)
        return lenient(cls, request, api, path_params)

    model.get_request_data = classmethod(get_request_data)  # type: ignore[assignment,method-assign]
    model.strict = True  # type: ignore[attr-defined]


def _refuse_unknown(given: Iterable[str], known: Iterable[str], what: str) -> None:
    faults = [{"field": name, "message": unknown_said(name, known, what=what)} for name in unknown_names(given, known)]
    if faults:
        detail = "; ".join(one["message"] for one in faults[:5])
        raise Problem(422, "The request does not match its schema", detail, kind="request-invalid", errors=faults)


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return NUL in value
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(one) for key, one in value.items())
    return isinstance(value, list) and any(_has_nul(one) for one in value)


def _refusal() -> Problem:
    return Problem(
        422, "Unusable character", "A string contains the NUL character (U+0000). Remove it.", kind="nul-character"
    )
