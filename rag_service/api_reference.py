"""`docs/api.md`: every call of the HTTP API with its parameters, fields and responses, from the OpenAPI document.

Knows OpenAPI; knows no endpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rag_service.api.error_responses import MEANING
from rag_service.main import create_app
from rag_service.settings import Settings

HEAD = """\
# HTTP API

A running service shows this reference at `/docs`, and its OpenAPI document at `/openapi.json`. This page is generated:
`python -m rag_service.reference docs`.

Requests and responses are JSON in UTF-8 unless a call says otherwise. Calls below `/v1` send an API key as
`Authorization: Bearer KEY` or `x-api-key: KEY`, unless the service is open without one. Errors are problem documents
(RFC 9457, `application/problem+json`): `{type, title, status, detail, code}`. `code` is stable, and `detail` says what
to do. OpenAI's and Anthropic's endpoints return errors in the formats of these APIs. Bad input never gives a 5xx. 429
and 503 have `Retry-After`.

| status | meaning of the error |
|---|---|
"""


def api_page() -> str:
    """The whole page as Markdown."""
    # Of all settings, only open_without_key changes the OpenAPI document, so the page is that of the defaults.
    document = create_app(Settings(_env_file=None)).openapi()  # type: ignore[call-arg]
    schemas = document["components"]["schemas"]
    parts = [HEAD + "".join(f"| {status} | {meaning} |\n" for status, meaning in MEANING.items())]
    tag = None
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation["tags"][0] != tag:
                tag = operation["tags"][0]
                parts.append(f"## {tag}\n")
            parts.append(_call(method, path, operation, schemas))
    parts.append("## Parts of bodies\n")
    parts += [_fields(f"### {name}", schemas[name]) for name in sorted(_used_schemas(document, schemas))]
    return "\n".join(parts).rstrip("\n") + "\n"


def _call(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = [f"### {method.upper()} {path}", "", operation.get("description", operation["summary"]).strip(), ""]
    rows = [
        (
            f"`{parameter['name']}`",
            parameter["in"] + (", required" if parameter.get("required") else ""),
            _type(parameter["schema"]),
            _meaning(parameter, parameter["schema"]),
        )
        for parameter in operation.get("parameters", ())
    ]
    if rows:
        lines += _table(("parameter", "in", "type", ""), rows)
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        body = _resolved(schema, schemas)
        if "properties" in body:
            lines += [f"Body (`{kind}`):", "", *_table(("field", "type", ""), _rows(body))]
    answers = []
    for status, response in operation["responses"].items():
        if int(status) in MEANING:
            continue
        bodies = [
            f"{_type(content['schema'])} (`{kind}`)" if content.get("schema") else f"`{kind}`"
            for kind, content in response.get("content", {}).items()
        ]
        answers.append((status, response["description"], ", ".join(bodies)))
    lines += _table(("status", "", "body"), answers)
    if errors := [status for status in operation["responses"] if int(status) in MEANING]:
        lines += [f"Errors: {', '.join(errors)}.", ""]
    return "\n".join(lines)


def _fields(title: str, schema: dict[str, Any]) -> str:
    lines = [title, ""]
    if description := schema.get("description"):
        lines += [description, ""]
    return "\n".join([*lines, *_table(("field", "type", ""), _rows(schema))])


def _rows(schema: dict[str, Any]) -> list[tuple[str, ...]]:
    required = schema.get("required", ())
    return [
        (f"`{name}`" + (" (required)" if name in required else ""), _type(field), _meaning(field, field))
        for name, field in schema.get("properties", {}).items()
    ]


def _used_schemas(document: dict[str, Any], schemas: dict[str, Any]) -> set[str]:
    """Names of all schemas in responses and within request bodies. Calls list the fields of their own request body."""
    names: set[str] = set()

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            if name and name not in names:
                names.add(name)
                collect(schemas[name])
            for item in value.values():
                collect(item)
        elif isinstance(value, list):
            for item in value:
                collect(item)

    for operations in document["paths"].values():
        for operation in operations.values():
            collect(operation["responses"])
            for content in operation.get("requestBody", {}).get("content", {}).values():
                collect(_resolved(content.get("schema", {}), schemas).get("properties"))
    return {name for name in names if "properties" in schemas[name]}


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    resolved: dict[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return resolved


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words, with `|` escaped for a table."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema or "const" in schema:
        return " \\| ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        options = schema["anyOf"]
        types = [_type(option) for option in options if option.get("type") != "null"]
        return " \\| ".join(dict.fromkeys(types)) + " or null" * (len(types) < len(options))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "properties" in schema:
        return f"{{{', '.join(f'`{name}`' for name in schema['properties'])}}}"
    return str(schema.get("type", "any"))


def _meaning(described: dict[str, Any], schema: dict[str, Any]) -> str:
    """Description, bounds and default of a parameter or field."""
    parts = [" ".join(str(described.get("description", "")).split()).replace("|", "\\|")]
    options = [schema, *schema.get("anyOf", ())]
    for name, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        parts += [f"{sign} {_number(option[name])}" for option in options if name in option]
    if schema.get("default") not in (None, [], {}) and not isinstance(schema["default"], dict):
        parts.append(f"default `{schema['default']}`")
    return "; ".join(part.rstrip(".") for part in parts if part)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:g}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]
