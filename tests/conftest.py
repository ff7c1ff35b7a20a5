"""Fixtures for all tests."""

from __future__ import annotations

pytest_plugins = ["tests.support.storage.postgres", "tests.support.storage.stores", "tests.support.storage.moving"]
