"""What routes are given: FastAPI dependencies as annotated aliases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from rag_service.access.principal import Principal, Role
from rag_service.answering.pipeline import Pipeline
from rag_service.errors import Forbidden
from rag_service.settings import Settings
from retriever import Collection


def _open_pipeline(request: Request) -> Pipeline:
    pipeline: Pipeline = request.app.state.pipeline
    return pipeline


def _principal(request: Request) -> Principal:
    """Whom the authentication found."""
    principal: Principal = request.state.principal
    return principal


PrincipalDep = Annotated[Principal, Depends(_principal)]


@dataclass(frozen=True)
class Needs:
    """The role that a route needs; every route below /v1 names one among its dependencies, or its router's."""

    role: Role

    def __call__(self, principal: PrincipalDep) -> None:
        if not principal.may(self.role):
            raise Forbidden(
                f"This needs the role {self.role}, and your key has the role {principal.role}: ask with another key "
                f"(`rag keys create NAME --role {self.role}` makes one)."
            )


READER = Depends(Needs("reader"))
EDITOR = Depends(Needs("editor"))


def _pipeline(request: Request, principal: PrincipalDep) -> Pipeline:
    """The principal's."""
    return _open_pipeline(request).of(principal)


OpenPipelineDep = Annotated[Pipeline, Depends(_open_pipeline)]
"""For what anyone may ask for: health and counts, nobody's answers or documents."""
PipelineDep = Annotated[Pipeline, Depends(_pipeline)]


def _settings(pipeline: PipelineDep) -> Settings:
    return pipeline.settings


def _collection(collection: str, pipeline: PipelineDep) -> Collection:
    """The collection that the path names. Raises UnknownCollection, InvalidName."""
    return pipeline.library.collection(collection)


SettingsDep = Annotated[Settings, Depends(_settings)]
CollectionDep = Annotated[Collection, Depends(_collection)]
