"""API keys for tests."""

from __future__ import annotations

from typing import Any

from rag_service.access.api_keys import ApiKey, ApiKeys


def add_key(api_keys: ApiKeys, name: str, tenant: str, **options: Any) -> tuple[ApiKey, str]:
    """The record of a new key, which the service accepts from now on, and the key itself; `options` of `prepared`."""
    record, key = api_keys.prepared(name, tenant, **options)
    api_keys.add(record, key)
    return record, key
