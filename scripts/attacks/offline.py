"""Use without the internet."""

from __future__ import annotations

import re

from service import Service, expect


def own_assets(service: Service) -> None:
    """The pages load nothing from another host."""
    for page in ("/", "/docs"):
        text = expect(service.ask("GET", page), 200).body.decode()
        for address in re.findall(r"""(?:src|href)=["']([^"'#]+)["']""", text):
            assert not address.startswith(("http:", "https:", "//")), f"{page} loads {address}"
            path = address if address.startswith("/") else f"/{address}"
            expect(service.ask("GET", path), 200)


OVER_HTTP = [own_assets]
