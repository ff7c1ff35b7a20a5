"""What routes are given: FastAPI dependencies as annotated aliases."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from rag_service.pipeline import Pipeline
from rag_service.settings import Settings
from retriever import Collection


def _pipeline(request: Request) -> Pipeline:
    pipeline: Pipeline = request.app.state.pipeline
    return pipeline


PipelineDep = Annotated[Pipeline, Depends(_pipeline)]


def _settings(pipeline: PipelineDep) -> Settings:
    return pipeline.settings


def _collection(collection: str, pipeline: PipelineDep) -> Collection:
    """The collection that the path names. Raises UnknownCollection, InvalidName."""
    return pipeline.library.collection(collection)


SettingsDep = Annotated[Settings, Depends(_settings)]
CollectionDep = Annotated[Collection, Depends(_collection)]
