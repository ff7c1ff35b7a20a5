"""The parameters of routes: FastAPI dependencies as annotated aliases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from rag_service.access.principal import Principal
from rag_service.answering.pipeline import Pipeline
from rag_service.contract.keys import Role
from rag_service.errors import Forbidden
from rag_service.settings import Settings
from retriever import Collection


def _shared_pipeline(request: Request) -> Pipeline:
    pipeline: Pipeline = request.app.state.pipeline
    return pipeline


def _principal(request: Request) -> Principal:
    """The principal that `KeyCheck` set."""
    principal: Principal = request.state.principal
    return principal


PrincipalDep = Annotated[Principal, Depends(_principal)]


@dataclass(frozen=True)
class RequiredRole:
    """The role that a route needs. Every route below /v1, or its router, has one among its dependencies."""

    role: Role

    def __call__(self, principal: PrincipalDep) -> None:
        if not principal.may(self.role):
            raise Forbidden(
                f"This request needs the role {self.role}, and your key has the role {principal.role}. Use another "
                f"key; `rag keys create NAME --role {self.role}` creates one."
            )


READER = Depends(RequiredRole("reader"))
EDITOR = Depends(RequiredRole("editor"))
ADMIN = Depends(RequiredRole("admin"))


def _pipeline(request: Request, principal: PrincipalDep) -> Pipeline:
    """The pipeline with the principal's collections, sessions and answers."""
    return _shared_pipeline(request).of(principal)


SharedPipelineDep = Annotated[Pipeline, Depends(_shared_pipeline)]
"""For health and counts, which need no principal and show no answers or documents."""
PipelineDep = Annotated[Pipeline, Depends(_pipeline)]


def _settings(pipeline: PipelineDep) -> Settings:
    return pipeline.settings


def _collection(collection: str, pipeline: PipelineDep) -> Collection:
    """The collection in the path. Raises UnknownCollection, InvalidName."""
    return pipeline.library.collection(collection)


SettingsDep = Annotated[Settings, Depends(_settings)]
CollectionDep = Annotated[Collection, Depends(_collection)]
