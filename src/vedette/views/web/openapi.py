"""The OpenAPI document of the API, made from the table of routes."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from vedette.version import __version__
from vedette.views.web.routes import Request, Route
from vedette.views.web.shapes import Fault
from vedette.views.web.state import AppState

_TYPES = {"text": "string", "count": "integer", "number": "number"}
_REFS = "#/components/schemas/{name}"


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of these routes."""
    bodies = [route.body for route in routes if route.body is not None]
    answers = [kind for route in routes for kind in (route.gives, route.carries) if isinstance(kind, type)]
    kinds = list(dict.fromkeys([*bodies, *answers, Fault]))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFS)
    by_kind = dict(zip(kinds, schemas, strict=True))
    taken = _reached([by_kind[kind] for kind in bodies], components)
    for name, schema in components.items():
        if name not in taken and "properties" in schema:
            schema["required"] = list(schema["properties"])  # an answer has every field, also those with a default
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "vedette", "version": __version__, "description": "Times are milliseconds since 1970."},
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "vedette_PORT"},
            },
        },
    }


def _operation(route: Route, by_kind: dict[Any, Any]) -> dict[str, Any]:
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    request = []
    for name, one in route.takes.items():
        schema: dict[str, Any] = {"type": _TYPES[one.kind]}
        if one.default is not None:
            schema["default"] = one.default
        request.append({"name": name, "in": "query", "description": one.about, "schema": schema})
        if one.example:
            request[-1]["example"] = one.example
    media = route.gives if isinstance(route.gives, str) else "application/json"
    content: dict[str, Any] = {media: {}}
    if isinstance(route.gives, type):
        content[media]["schema"] = by_kind[route.gives]
    elif route.carries is not None:
        inside = {"contentMediaType": "application/json", "contentSchema": by_kind[route.carries]}
        content[media]["schema"] = {"type": "string", **inside}
    fault = {
        "description": "The reason why it was refused",
        "content": {"application/json": {"schema": by_kind[Fault]}},
    }
    operation: dict[str, Any] = {
        "summary": route.about,
        "parameters": [*named, *request],
        "responses": {"200": {"description": "Done", "content": content}, "4XX": fault, "5XX": fault},
    }
    if route.body is not None:
        taken: dict[str, Any] = {"schema": by_kind[route.body]}
        if route.example:
            taken["example"] = route.example
        operation["requestBody"] = {"content": {"application/json": taken}}
    return operation


def _reached(schemas: Any, components: dict[str, Any]) -> set[str]:
    """Return the names of the components that these schemas refer to."""
    found: set[str] = set()
    ahead = [schemas]
    while ahead:
        here = ahead.pop()
        if isinstance(here, list):
            ahead += here
        elif isinstance(here, dict):
            name = str(here.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                ahead.append(components[name])
            ahead += here.values()
    return found


def openapi(state: AppState, request: Request) -> Any:  # noqa: ARG001 - every route is called like this
    """Return the document."""
    return state.described
