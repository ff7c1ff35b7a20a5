"""An OpenID provider on loopback: Authlib's server, with PKCE, one-time codes and tokens signed by a key of its own.

It is another implementation than the one that checks its tokens (PyJWT). Its faults are those that a test asks for.
"""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import flask
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin
from authlib.oauth2.rfc6749.errors import OAuth2Error
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core.grants import OpenIDCode
from joserfc import jwt
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

CLIENT_ID, SECRET = "rag:service", "a secret/with+signs %"
Claims = dict[str, Any]


@dataclass
class _Client(ClientMixin):
    redirect_uris: list[str]
    secret: str = SECRET
    id_token_signed_response_alg: str = "RS256"

    def get_client_id(self) -> str:
        return CLIENT_ID

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.redirect_uris

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method != "none"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass
class _Code(AuthorizationCodeMixin):
    code: str
    subject: str
    redirect_uri: str
    scope: str
    nonce: str | None
    code_challenge: str | None
    code_challenge_method: str | None

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int:
        return int(time.time())

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


@dataclass
class OpenIdProvider:
    """The provider.

    Attributes:
        people: claims of each subject in its ID tokens.
        told: claims of each subject at the user info endpoint, if it has one.
        client: what it knows of the service.
        metadata: replaces parts of what it says of itself; None takes one away.
        change: makes another ID token of the claims of one, for tokens that are not to be accepted.
        keeps_codes: whether it takes codes twice.
        asked: paths in the order of the requests.
        key: what it signs with.
    """

    people: dict[str, Claims] = field(default_factory=dict)
    told: dict[str, Claims] = field(default_factory=dict)
    client: _Client = field(default_factory=lambda: _Client([]))
    metadata: dict[str, Any] = field(default_factory=dict)
    change: Callable[[Claims], str | Claims] | None = None
    keeps_codes: bool = False
    asked: list[str] = field(default_factory=list)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "first", "use": "sig"}))
    issuer: str = ""

    def signed(self, claims: Claims, key: RSAKey | None = None, **header: Any) -> str:
        """A token of these claims."""
        key = key or self.key
        header = {"alg": "RS256", "kid": self.key.kid, **header}
        return str(jwt.encode(header, claims, key, [header["alg"]]))

    def document(self) -> Mapping[str, Any]:
        own = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/sign-out",
            "userinfo_endpoint": f"{self.issuer}/userinfo" if self.told else None,
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        }
        return {name: value for name, value in (own | self.metadata).items() if value is not None}


@contextmanager
def openid_provider() -> Iterator[OpenIdProvider]:
    """The provider, running."""
    provider = OpenIdProvider()
    server = make_server("127.0.0.1", 0, _app(provider), threaded=True)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield provider
    server.shutdown()
    thread.join(30)
    server.server_close()


def _app(provider: OpenIdProvider) -> flask.Flask:
    app = flask.Flask("provider")
    codes: dict[str, _Code] = {}
    tokens: dict[str, str] = {}

    class Grant(AuthorizationCodeGrant):
        def save_authorization_code(self, code: str, request: Any) -> None:
            data = request.payload.data
            codes[code] = _Code(
                code,
                request.user,
                request.payload.redirect_uri,
                request.payload.scope,
                data.get("nonce"),
                data.get("code_challenge"),
                data.get("code_challenge_method"),
            )

        def query_authorization_code(self, code: str, client: _Client) -> _Code | None:
            return codes.get(code)

        def delete_authorization_code(self, authorization_code: _Code) -> None:
            if not provider.keeps_codes:
                del codes[authorization_code.code]

        def authenticate_user(self, authorization_code: _Code) -> str:
            return authorization_code.subject

    class IdToken(OpenIDCode):
        def exists_nonce(self, nonce: str, request: Any) -> bool:
            return False

        def resolve_client_private_key(self, client: _Client) -> RSAKey:
            return provider.key

        def get_client_claims(self, client: _Client) -> Claims:
            return {"iss": provider.issuer, "aud": [CLIENT_ID]}

        def get_encode_header(self, client: _Client) -> Claims:
            return {"alg": "RS256", "kid": provider.key.kid}

        def generate_user_info(self, user: str, scope: str) -> Claims:
            return {"sub": user, **provider.people[user]}

    server = AuthorizationServer(
        app,
        query_client=lambda client_id: provider.client if client_id == CLIENT_ID else None,
        save_token=lambda token, request: tokens.update({token["access_token"]: request.user}),
    )
    server.register_grant(Grant, [IdToken(require_nonce=True), CodeChallenge(required=True)])

    @app.before_request
    def note() -> None:
        provider.asked.append(flask.request.path)

    @app.get("/.well-known/openid-configuration")
    def configuration() -> Any:
        return dict(provider.document())

    @app.get("/keys")
    def keys() -> Any:
        return {"keys": [{"kty": "unheard-of"}, provider.key.as_dict(private=False)]}

    @app.get("/sign-out")
    def sign_out() -> Any:
        client = html.escape(flask.request.args["client_id"])
        return f'<!doctype html><html lang="en"><title>Out</title><p>{client} is out</html>'

    @app.get("/favicon.ico")
    def icon() -> Any:
        return "", 204

    @app.get("/authorize")
    def form() -> Any:
        try:
            server.get_consent_grant(end_user=None)
        except OAuth2Error as error:
            return f"{error.error}: {error.description}", 400
        buttons = "".join(
            f'<button name="sub" value="{html.escape(person)}">{html.escape(person)}</button>'
            for person in provider.people
        )
        return f'<!doctype html><html lang="en"><title>Provider</title><form method="post">{buttons}</form></html>'

    @app.post("/authorize")
    def authorize() -> Any:
        person = flask.request.form.get("sub")
        return server.create_authorization_response(grant_user=person, grant=server.get_consent_grant(end_user=person))

    @app.post("/token")
    def token() -> Any:
        response = server.create_token_response()
        body = response.get_json()
        if provider.change is not None and "id_token" in body:
            changed = provider.change(dict(jwt.decode(body["id_token"], provider.key).claims))
            body["id_token"] = provider.signed(changed) if isinstance(changed, dict) else changed
            response.data = flask.json.dumps(body)
        return response

    @app.get("/userinfo")
    def userinfo() -> Any:
        person = tokens.get(flask.request.headers["Authorization"].removeprefix("Bearer "))
        return ({"sub": person, **provider.told[person]}, 200) if person else ({}, 401)

    return app
