"""`docs/api.md`: every call of the HTTP API with its parameters, fields and answers, made from its OpenAPI document.

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

A running service shows the same at `/docs`, and as an OpenAPI document at `/openapi.json`. This page is generated:
`python -m rag_service.reference docs`.

Requests and answers are JSON in UTF-8 unless a call says otherwise. Below `/v1` an API key goes into
`Authorization: Bearer KEY` where the service wants one. Errors are problem documents (RFC 9457,
`application/problem+json`): `{type, title, status, detail, code}`, where `code` is stable and `detail` says what to do;
OpenAI's endpoints write them as OpenAI does. Bad input is never answered with a 5xx; 429 and 503 carry `Retry-After`.

| status | of an error |
|---|---|
"""


def api_page() -> str:
    """The page."""
    # The description depends on no setting but whether keys are needed, so the defaults will do.
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
    parts += [_fields(f"### {name}", schemas[name]) for name in sorted(_named(document, schemas))]
    return "\n".join(parts).rstrip("\n") + "\n"


def _call(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = [f"### {method.upper()} {path}", "", operation.get("description", operation["summary"]).strip(), ""]
    rows = [
        (
            f"`{p['name']}`",
            p["in"] + (", required" if p.get("required") else ""),
            _type(p["schema"]),
            _said(p, p["schema"]),
        )
        for p in operation.get("parameters", ())
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
        shown = [
            f"{_type(content['schema'])} (`{kind}`)" if content.get("schema") else f"`{kind}`"
            for kind, content in response.get("content", {}).items()
        ]
        answers.append((status, response["description"], ", ".join(shown)))
    lines += _table(("status", "", "body"), answers)
    if refused := [status for status in operation["responses"] if int(status) in MEANING]:
        lines += [f"Errors: {', '.join(refused)}.", ""]
    return "\n".join(lines)


def _fields(title: str, schema: dict[str, Any]) -> str:
    lines = [title, ""]
    if said := schema.get("description"):
        lines += [said, ""]
    return "\n".join([*lines, *_table(("field", "type", ""), _rows(schema))])


def _rows(schema: dict[str, Any]) -> list[tuple[str, ...]]:
    needed = schema.get("required", ())
    return [
        (f"`{name}`" + (" (required)" if name in needed else ""), _type(field), _said(field, field))
        for name, field in schema.get("properties", {}).items()
    ]


def _named(document: dict[str, Any], schemas: dict[str, Any]) -> set[str]:
    """Names of the schemas that bodies are made of, but for those of requests, which stand with their calls."""
    found: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                look(schemas[name])
            for one in value.values():
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    for operations in document["paths"].values():
        for operation in operations.values():
            look(operation["responses"])
            for content in operation.get("requestBody", {}).get("content", {}).values():
                look(_resolved(content.get("schema", {}), schemas).get("properties"))
    return {name for name in found if "properties" in schemas[name]}


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words; `|` is written so that it survives a table."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema or "const" in schema:
        return " \\| ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        kinds = [_type(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " \\| ".join(dict.fromkeys(kinds)) + " or null" * any(s.get("type") == "null" for s in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "properties" in schema:
        return f"{{{', '.join(f'`{name}`' for name in schema['properties'])}}}"
    return str(schema.get("type", "any"))


def _said(described: dict[str, Any], schema: dict[str, Any]) -> str:
    """Description, bounds and default."""
    parts = [" ".join(str(described.get("description", "")).split()).replace("|", "\\|")]
    options = [schema, *schema.get("anyOf", ())]
    for name, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        parts += [f"{sign} {_number(one[name])}" for one in options if name in one]
    if schema.get("default") not in (None, [], {}) and not isinstance(schema["default"], dict):
        parts.append(f"default `{schema['default']}`")
    return "; ".join(part.rstrip(".") for part in parts if part)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:g}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]
