"""The HTTP API as a FastAPI application: routes, middleware, error handlers and the pipeline's lifetime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from rag_service.access import local_key
from rag_service.answering.pipeline import Pipeline
from rag_service.anthropic import routes as anthropic
from rag_service.api import problems
from rag_service.api.authentication import KeyCheck
from rag_service.api.body_limit import BodyLimit
from rag_service.api.error_responses import describe, error_responses
from rag_service.api.hosts import HostCheck
from rag_service.api.routes import (
    answers,
    api_docs,
    audit,
    collections,
    documents,
    health,
    jobs,
    keys,
    oidc,
    page,
    query,
    sessions,
    sign_in,
    usage,
)
from rag_service.errors import InvalidSettings
from rag_service.openai import model_routes as openai_models
from rag_service.openai import routes as openai
from rag_service.settings import Settings, load_settings

ABOUT = """Answers over your documents, with citations. Add documents with
`POST /v1/collections/{collection}/documents`, then ask with `POST /v1/query`.

Send the key as `Authorization: Bearer KEY`. Errors are problem documents (RFC 9457) whose `detail` says what to do."""


def create_app(settings: Settings | None = None, pipeline: Pipeline | None = None) -> FastAPI:
    """The API. The default settings come from the environment; the default pipeline is opened from the settings.

    Raises (at startup): InvalidSettings: no Redis is set, a model's files are missing, or the local key is unusable.
    """
    settings = settings or (pipeline.settings if pipeline else load_settings())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            app.state.local_key = local_key.ensure(settings.data_dir)
        except local_key.LocalKeyError as error:
            raise InvalidSettings(str(error)) from None
        app.state.pipeline = running = pipeline or _open(settings)
        running.warm()
        yield
        await running.close()

    app = FastAPI(
        title="rag-service",
        version="0.1.0",
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a request is about what its path names, not about what a shorter one does
    )
    problems.install(app)
    # The last one is outermost. All of them run before a body is read.
    app.add_middleware(BodyLimit, limits=settings.limits)
    app.add_middleware(KeyCheck, is_open=settings.open_without_key)
    app.add_middleware(HostCheck, host=settings.host, allowed=settings.allowed_hosts)
    bearer = Depends(HTTPBearer(auto_error=False, description="An API key, or the service's local key."))
    own = (query, answers, sessions, collections, documents, jobs, usage, keys, audit, sign_in)
    for module in (*own, openai, openai_models, anthropic):
        app.include_router(module.router, dependencies=[bearer], responses=error_responses(401, 403, 503))
    app.include_router(health.router)
    app.include_router(oidc.router)
    app.include_router(page.router)
    app.include_router(api_docs.router)
    describe(app, keys_required=not settings.open_without_key)
    return app


def _open(settings: Settings) -> Pipeline:
    if settings.redis_url is None:
        raise InvalidSettings("No Redis is set. Start everything with `rag up`, or set RAG_REDIS_URL.")
    return Pipeline(settings, settings.redis_url)
