"""The id of a document that has none of its own, from its name. Pure; clients compute the same ids."""

from __future__ import annotations

import hashlib
import re

_NOT_IN_SLUG = re.compile(r"[^A-Za-z0-9._]+")


def id_of_name(name: str) -> str:
    """The end of the name, to be recognised, and a digest of all of it: at most 71 characters."""
    slug = _NOT_IN_SLUG.sub("-", name)[-60:].strip("-.")
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{slug}-{digest[:10]}".lstrip("-")
