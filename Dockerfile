# Two images: `api`, which has no torch and loads no model, and `worker`, the default, which can also be the API.
#
# PyPI's torch carries CUDA (about 3 GB) and serves both `worker` and `worker-gpu`. For a CPU-only image:
#   docker compose build --build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
# Wheels laid into .wheels/ are preferred to those of the index.
# PYTHON_IMAGE may name a digest, python@sha256:….
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm
FROM ${PYTHON_IMAGE} AS base

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PATH=/opt/rag/bin:$PATH

RUN useradd --system --uid 10001 --user-group --home-dir /data --shell /usr/sbin/nologin rag \
    && install -d -o rag -g rag /data /models /secrets

# HOME is on the tmpfs that compose mounts: nothing is ever written to the image's own file system. Machine code of the
# drafter `auto` is kept with the data: compiling it takes a worker some seconds.
ENV RAG_DATA_DIR=/data \
    RAG_MODELS_DIR=/models \
    RAG_HOST=0.0.0.0 \
    RAG_PORT=8080 \
    NUMBA_CACHE_DIR=/data/.numba \
    HOME=/tmp
EXPOSE 8080
CMD ["rag", "serve"]


FROM base AS packages
ARG PIP_INDEX_URL=
ARG PIP_EXTRA_INDEX_URL=

# Dependencies first: they change less often than the source.
WORKDIR /src
COPY constraints.txt .wheel[s] /wheels/
COPY pyproject.toml LICENSE ./
RUN python -m venv /opt/rag \
    && touch README.md \
    && pip install --find-links /wheels -c /wheels/constraints.txt ".[native,postgres]"

COPY rag_service rag_service
COPY retriever retriever
COPY decoder decoder
COPY workers workers
RUN pip install --no-deps --force-reinstall .


FROM packages AS api-packages
COPY scripts/slim scripts/slim
RUN scripts/slim /opt/rag


FROM base AS api
ENV RAG_EMBEDDING_DEVICE=workers
COPY --from=api-packages /opt/rag /opt/rag
WORKDIR /data
USER rag


FROM base AS worker
COPY --from=packages /opt/rag /opt/rag
WORKDIR /data
USER rag
