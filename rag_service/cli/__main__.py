"""`python -m rag_service.cli`: the same as `rag`."""

from rag_service.cli import app

app(prog_name="rag")
