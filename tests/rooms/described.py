"""Whether an answer is what the OpenAPI description says: all that is described, and nothing else."""

from typing import Any

_KINDS: dict[str, Any] = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}


def problems(value: Any, schema: dict[str, Any], components: dict[str, Any], at: str = "$") -> list[str]:
    """Return what is wrong with a value, each with its place; none when it is as described."""
    if "$ref" in schema:
        return problems(value, components[schema["$ref"].rpartition("/")[2]], components, at)
    if "anyOf" in schema:
        found = [problems(value, one, components, at) for one in schema["anyOf"]]
        return [] if [] in found else found[0]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at}: {value!r} is none of {schema['enum']}"]
    kind = schema.get("type")
    if kind is None:
        return []
    if not _is(value, kind):
        return [f"{at}: {value!r} is no {kind}"]
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items", {})] * len(value)
        if len(items) != len(value):
            return [f"{at}: {len(value)} items, not {len(items)}"]
        pairs = zip(value, items, strict=True)
        return [wrong for n, (one, item) in enumerate(pairs) for wrong in problems(one, item, components, f"{at}[{n}]")]
    return _fields(value, schema, components, at) if kind == "object" else []


def _is(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        return isinstance(value, int if kind == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, _KINDS[kind])


def _fields(value: dict[str, Any], schema: dict[str, Any], components: dict[str, Any], at: str) -> list[str]:
    if "properties" not in schema:
        rest = schema.get("additionalProperties", {})
        return [wrong for key, one in value.items() for wrong in problems(one, rest, components, f"{at}.{key}")]
    named = schema["properties"]
    wrong = [f"{at}: {key} is missing" for key in schema["required"] if key not in value]
    wrong += [f"{at}: {key} is not described" for key in value if key not in named]
    for key in named.keys() & value.keys():
        wrong += problems(value[key], named[key], components, f"{at}.{key}")
    return wrong
