"""What routes are given: FastAPI dependencies as annotated aliases."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from rag_service.pipeline import Pipeline
from rag_service.settings import Settings
from retriever import Collection


def _open_pipeline(request: Request) -> Pipeline:
    pipeline: Pipeline = request.app.state.pipeline
    return pipeline


def _pipeline(request: Request) -> Pipeline:
    """The tenant's, whom the authentication found."""
    pipeline: Pipeline = request.app.state.pipeline
    return pipeline.of(request.state.tenant)


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
