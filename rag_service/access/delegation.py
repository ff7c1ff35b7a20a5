"""Which keys an admin sees, revokes and creates: those of the own tenant that open nothing that the admin cannot open.

Knows principals and keys; knows no HTTP and no Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rag_service.access.api_keys import ApiKey
from rag_service.access.principal import PROVIDERS_PERSON, Principal
from rag_service.errors import Forbidden


def reaches(admin: Principal, key: ApiKey) -> bool:
    """Whether a key is of the admin's tenant, and limited to collections that the admin can access."""
    if key.tenant != admin.tenant:
        return False
    if admin.collections is None:
        return True
    return key.collections is not None and admin.collections.issuperset(key.collections)


def granted(admin: Principal, collections: Sequence[str] | None) -> list[str] | None:
    """The collections of a key that the admin creates; all that the admin can access by default.

    Raises:
        Forbidden: the admin cannot access some of them.
    """
    if collections is None:
        return None if admin.collections is None else sorted(admin.collections)
    if beyond := sorted(name for name in collections if not admin.sees(name)):
        raise Forbidden(
            f"Your key is limited to the collections {', '.join(sorted(admin.collections or ()))}, so it creates no "
            f"key for {', '.join(beyond)[:300]}. Leave these out, or use another key."
        )
    return list(collections)


def check_person(admin: Principal, person: str, known: Iterable[ApiKey], has_sessions: Callable[[], bool]) -> None:
    """Check that a key of this person opens no sessions that the admin cannot read.

    Args:
        known: all keys.
        has_sessions: whether sessions of the person are kept.

    Raises:
        Forbidden: it would, or might: the admin is limited to collections, and a key of the person is not.
    """
    if person == admin.person:
        return
    if PROVIDERS_PERSON.fullmatch(person):
        raise Forbidden(
            f"The person {person!r} signs in at the OpenID provider, so your key creates no key for this person. "
            "Choose another name for the person."
        )
    theirs = [key for key in known if (key.tenant, key.person) == (admin.tenant, person)]
    if has_sessions() or (admin.collections is not None and not all(reaches(admin, key) for key in theirs)):
        raise Forbidden(
            f"The person {person!r} has sessions, or may have some, that are not yours to read, so your key creates no "
            "further key for this person. Choose another name for the person, or let the operator create the key: "
            f"rag keys create NAME --person {person}"
        )
