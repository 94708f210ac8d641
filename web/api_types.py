"""Write src/lib/api.gen.ts: the server's answers and questions as TypeScript, from its own OpenAPI description.

npm run types    after a change of a route or a shape; a test fails while the file is not current

A generator from npm would bring thirty packages, and its test would need node; the description uses few of the words
of JSON Schema, and one that is not known here is an error.
"""

import json
import sys
from pathlib import Path
from typing import Any

PLACE = Path(__file__).resolve().parent / "src" / "lib" / "api.gen.ts"
_HEAD = """\
/**
 * What the server takes and answers, as its own description has it (/api/openapi.json).
 * Made by web/api_types.py: do not edit it, run `npm run types`.
 */
"""
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def text(described: dict[str, Any]) -> str:
    """Return the file: a type for each schema, and for each address what it takes and gives."""
    parts = [_HEAD]
    for name, schema in sorted(described["components"]["schemas"].items()):
        parts.append(f"/** {schema['description']} */\nexport type {name} = {_object(schema)};\n")
    for method, name, about in (
        ("get", "Gets", "What can be read: what each address takes, in its path and its query, and what it answers."),
        ("post", "Posts", "What can be sent: the names in each address's path, its body, and what it answers."),
    ):
        rows = [
            f"  {json.dumps(path)}: {_operation(found[method])};\n"
            for path, found in described["paths"].items()
            if method in found
        ]
        parts.append(f"/** {about} */\nexport type {name} = {{\n{''.join(rows)}}};\n")
    return "\n".join(parts)


def _operation(operation: dict[str, Any]) -> str:
    takes = {one["name"]: one for one in operation["parameters"]}
    fields = [
        f"{name}: {_type(one['schema'])}" if one.get("required") else f"{name}?: {_type(one['schema'])} | null"
        for name, one in takes.items()
    ]
    parts = [f"takes: {_braces(fields, '    ')}"]
    if "requestBody" in operation:
        parts.append(f"body: {_type(operation['requestBody']['content']['application/json']['schema'])}")
    (content,) = operation["responses"]["200"]["content"].values()
    schema = content.get("schema", {})
    parts.append(f"gives: {_type(schema.get('contentSchema', schema))}")
    return _braces(parts, "  ")


def _object(schema: dict[str, Any]) -> str:
    required = schema["required"]
    fields = [f"{name}{'' if name in required else '?'}: {_type(one)}" for name, one in schema["properties"].items()]
    return _braces(fields)


def _braces(fields: list[str], indent: str = "") -> str:
    """Return fields as an object type, laid out as prettier does."""
    if not fields:
        return "Record<string, never>"
    return "{\n" + "".join(f"{indent}  {field};\n" for field in fields) + indent + "}"


def _type(schema: dict[str, Any]) -> str:
    """Return a schema as a type; raise ValueError where it says what is not known here."""
    rest = {key: value for key, value in schema.items() if key not in ("default", "title", "description")}
    match rest:
        case {"$ref": str(ref), **other} if not other:
            return ref.rpartition("/")[2]
        case {"anyOf": list(some), **other} if not other:
            return " | ".join(dict.fromkeys(_type(one) for one in some))
        case {"enum": list(values), **other} if not other:
            return " | ".join(json.dumps(value) for value in values)
        case {"type": str(name), **other} if name in _PLAIN and not other:
            return _PLAIN[name]
        case {"type": "array", "prefixItems": list(items), **other} if set(other) <= {"minItems", "maxItems", "items"}:
            return f"[{', '.join(_type(one) for one in items)}]"
        case {"type": "array", **other} if set(other) <= {"items"}:
            inner = _type(other.get("items", {}))
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case {"type": "object", **other} if set(other) <= {"additionalProperties"}:
            return f"Record<string, {_type(other.get('additionalProperties', {}))}>"
        case {**other} if not other:
            return "unknown"
    raise ValueError(f"the description says what api_types.py does not know: {json.dumps(schema)}")


def main() -> int:
    """Write the file when it is not current."""
    from vedette.views.web.openapi import describe  # noqa: PLC0415 - whoever reads `text` hands in what it describes
    from vedette.views.web.server import ROUTES  # noqa: PLC0415

    told = text(describe(ROUTES))
    if not PLACE.exists() or PLACE.read_text() != told:
        PLACE.write_text(told)
        print(f"{PLACE.name} is written anew", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
