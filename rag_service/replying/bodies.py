"""Bodies in the form of another service's API: null means left out, and no field that changes the answer is dropped.

Knows how fields are accepted without effect or rejected; knows no API's fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationInfo, model_validator

from rag_service.contract.json_body import RequestBody

Ignored = Annotated[Any, Field(default=None, description="Accepted; changes nothing here.")]
REJECTED = "Rejected unless its value has no effect."
Rejected = Annotated[Any, Field(default=None, description=REJECTED)]
"""A field that cannot be honoured; its class validates it with `check_rejected`."""
Reasons = Mapping[str, tuple[str, tuple[Any, ...]]]
"""Why a field cannot be honoured, and the values without effect, by the field's name."""


def check_rejected(reasons: Reasons) -> Callable[[Any, ValidationInfo], Any]:
    """A validator, mode `before`, of `Rejected` fields: a ValueError unless the value has no effect."""

    def check(value: Any, info: ValidationInfo) -> Any:
        reason, harmless = reasons[str(info.field_name)]
        if value not in harmless:
            raise ValueError(f"this service cannot honour {info.field_name!r}: {reason}")
        return value

    return check


def list_harmless_values(reasons: Reasons) -> Callable[[dict[str, Any]], None]:
    """For `json_schema_extra`: in the JSON schema, rejected fields allow the values without effect."""

    def list_them(schema: dict[str, Any]) -> None:
        for name, field in schema.get("properties", {}).items():
            if field.get("description") == REJECTED:
                field["enum"] = [None, *reasons[name][1]]

    return list_them


class ForeignBody(RequestBody):
    """A body in which null means that a field was left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: item for name, item in value.items() if item is not None}
        return value


class SchemaBody(ForeignBody):
    """A body with the field `schema`, a JSON schema, which is `schema_` in Python."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: dict[str, Any] = Field(alias="schema")

    @classmethod
    def _unknown(cls, name: str) -> str:
        fields = ", ".join(sorted(field.rstrip("_") for field in cls.model_fields))
        return f"there is no field {name[:80]!r} here; the fields are {fields}"

    @model_validator(mode="before")
    @classmethod
    def _alias(cls, value: Any) -> Any:
        if isinstance(value, dict) and "schema" in value and "schema_" not in value:
            value = {**value, "schema_": value["schema"]}
            del value["schema"]
        return value
