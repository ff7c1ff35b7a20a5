"""The manifests of docs/how-to/kubernetes.md hold before Kubernetes' own schemas, and name what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.markdown_blocks import blocks

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "kubernetes.md"
MANIFESTS: list[dict[str, Any]] = [
    manifest for block in blocks(PAGE) if block.language == "yaml" for manifest in yaml.safe_load_all(block.code)
]


def name(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def named(manifest: Any, key: str) -> set[str]:
    """The names that a manifest refers to below `key`, such as `configMapRef`."""
    if isinstance(manifest, list):
        return set().union(*(named(one, key) for one in manifest))
    if not isinstance(manifest, dict):
        return set()
    own = {manifest[key]["name"]} if key in manifest else set()
    return own.union(*(named(one, key) for one in manifest.values()))


@pytest.mark.parametrize("manifest", MANIFESTS, ids=name)
def test_a_manifest_holds_before_the_schemas(manifest: dict[str, Any]) -> None:
    assert kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_a_manifest_with_a_mistake_does_not() -> None:
    wrong = yaml.safe_load(yaml.safe_dump(MANIFESTS[0]).replace("replicas: 1", "replica: 1"))
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_what_manifests_name_is_there() -> None:
    there = {name(manifest) for manifest in MANIFESTS}
    assert {f"ConfigMap {one}" for one in named(MANIFESTS, "configMapRef")} <= there
    assert {f"`{one}`" for one in named(MANIFESTS, "secretRef")} <= set(re.findall("`[^`\n]+`", PAGE.read_text()))
    for manifest in MANIFESTS:
        if "template" not in manifest.get("spec", {}):
            continue
        spec = manifest["spec"]["template"]["spec"]
        volumes = {one["name"] for one in spec["volumes"]}
        volumes |= {one["metadata"]["name"] for one in manifest["spec"].get("volumeClaimTemplates", [])}
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes, name(manifest)
