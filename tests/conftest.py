"""Fixtures for all tests."""

from __future__ import annotations

pytest_plugins = ["tests.support.postgres", "tests.support.stores", "tests.support.moving"]
