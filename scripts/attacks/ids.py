"""Ids and numbers that no client would send."""

from __future__ import annotations

import re
from urllib.parse import quote

from service import Service, expect

STRANGE = [
    "x:turns", "x:events", ":", "*", "?", " ", "x y", "%00", "%0a", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..", "é", "%ff",
    "a" * 5000, "0" * 32 + ":events", "x:ids", "-1", "99999999999999999999", "{}", "x\u202ey",
]  # fmt: skip


def another_key_by_an_id(service: Service) -> None:
    """No id reaches another Redis key: deleting the session `x:turns` does not delete turns of x."""
    name = service.collection()
    body = {"question": "What is there?", "collection": name, "session_id": "attacked", "max_tokens": 2}
    answer = expect(service.ask("POST", "/v1/query", body), 200).json["answer_id"]
    for more in ("turns", "answers", "ids", "parts", "claim", "passages"):
        expect(service.ask("DELETE", f"/v1/sessions/attacked:{more}"), 404, 422)
        expect(service.ask("GET", f"/v1/sessions/attacked:{more}"), 404, 422)
    for more in ("events", "cancel", "versions"):
        for method in ("GET", "DELETE"):
            expect(service.ask(method, f"/v1/answers/{answer}:{more}"), 404, 422)
    assert len(expect(service.ask("GET", "/v1/sessions/attacked"), 200).json["turns"]) == 1
    expect(service.ask("DELETE", "/v1/sessions/attacked"), 204)


def every_path(service: Service) -> None:
    """An unknown or malformed id in any path gets a 4xx status, never a server error."""
    paths = expect(service.ask("GET", "/openapi.json"), 200).json["paths"]
    for path, operations in paths.items():
        for method in operations:
            if "{" not in path or method not in ("get", "delete"):
                continue
            for strange in STRANGE:
                text = strange if "%" in strange else quote(strange, safe=":*")
                tried = re.sub(r"\{[^}]+\}", lambda _, text=text: text, path)
                reply = service.ask(method.upper(), tried)
                assert 400 <= reply.status < 500, f"{method} {tried[:100]}: {reply.status} {reply.body[:100]!r}"


def numbers(service: Service) -> None:
    """Numbers out of range are rejected."""
    huge = "99999999999999999999"
    name = service.collection()
    for path in ("/v1/sessions", "/v1/jobs", f"/v1/collections/{name}/documents"):
        for query in (f"offset={huge}", f"limit={huge}", f"limit=-{huge}", "limit=1e400", "limit=NaN", "after=%00"):
            reply = service.ask("GET", f"{path}?{query}")
            assert reply.status in (200, 422), f"{path}?{query}: {reply.status}"
    expect(service.ask("GET", f"/v1/sessions?offset={huge}"), 422)
    for field in ("max_tokens", "seed", "top_k"):
        expect(service.ask("POST", "/v1/query", {"question": "x", "collection": name, field: int(huge)}), 422)
    answer = "0" * 32
    for last in ("x", "1-1-1", f"{huge}-{huge}", "-", ":"):
        expect(service.ask("GET", f"/v1/answers/{answer}/events", headers={"Last-Event-ID": last}), 404, 422)


OVER_HTTP = [another_key_by_an_id, every_path, numbers]
