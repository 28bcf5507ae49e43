# One image per service: docker build --target selfplay_worker .
#
#   light ── selfplay_worker, gatekeeper, prepare       without torch
#   heavy ── inference_server, trainer                  with torch
#   web ──── ui                                         with torch, for play against a model, and the extra `ui`
#   redis                                               Redis with this project's configuration
#
# Builds with and without BuildKit. Access to a package index is configured by build arguments, which are used in the stages
# `packages`, `torch` and `web_venv` only and do not reach an image. Base images may be pinned by digest:
# PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:...
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG REDIS_IMAGE=redis:7-bookworm
# Values of the labels; each image sets its labels last, so that a new revision rebuilds no layer.
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
ARG SOURCE=unknown

# -- packages ----------------------------------------------------------------------------------------------------------

FROM ${PYTHON_IMAGE} AS packages
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
WORKDIR /build
RUN python -m venv /opt/venv
COPY pyproject.toml constraints.txt deploy/docker/requirements.py ./
RUN python requirements.py --without torch matplotlib --with s3 traces > requirements.txt \
    && /opt/venv/bin/pip install --no-cache-dir --no-input -c constraints.txt -r requirements.txt

# A C compiler for the kernel (zerofleet/evaluators/native). Where Debian's packages are out of reach the wheel lacks the
# kernel, and the inference server runs networks in TorchScript.
FROM packages AS wheel
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN command -v cc >/dev/null \
    || { timeout 120 apt-get -o Acquire::Retries=0 -o Acquire::http::Timeout=10 update \
    && timeout 300 apt-get install -y --no-install-recommends gcc libc6-dev; } \
    || echo "WARNING: no C compiler to be had; the wheel lacks the native kernel" >&2
COPY . .
RUN /opt/venv/bin/pip wheel --no-cache-dir --no-input --no-deps -w /wheel .

FROM packages AS light_venv
COPY --from=wheel /wheel /wheel
RUN /opt/venv/bin/pip install --no-cache-dir --no-index --no-deps /wheel/*.whl \
    && /opt/venv/bin/pip uninstall --yes --quiet pip setuptools

FROM packages AS torch
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
# The CPU build; https://download.pytorch.org/whl/cu130 for a GPU, empty for the package index's build.
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL} ${TORCH_INDEX_URL}" \
    /opt/venv/bin/pip install --no-cache-dir --no-input -c constraints.txt torch

FROM torch AS heavy_venv
COPY --from=wheel /wheel /wheel
RUN /opt/venv/bin/pip install --no-cache-dir --no-index --no-deps /wheel/*.whl \
    && /opt/venv/bin/pip uninstall --yes --quiet pip

FROM torch AS web_venv
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN python requirements.py --without torch matplotlib --with ui > requirements.txt \
    && /opt/venv/bin/pip install --no-cache-dir --no-input -c constraints.txt -r requirements.txt
COPY --from=wheel /wheel /wheel
RUN /opt/venv/bin/pip install --no-cache-dir --no-index --no-deps /wheel/*.whl \
    && /opt/venv/bin/pip uninstall --yes --quiet pip

# -- common base of the services ---------------------------------------------------------------------------------------

FROM ${PYTHON_IMAGE} AS service
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim-bookworm"
# A new volume inherits the owner of the folder that it is mounted on.
RUN groupadd --gid 10001 zerofleet \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin zerofleet \
    && install -d -m 0750 -o zerofleet -g zerofleet /data /models /cache /backups \
       /run/credentials /run/credentials/redis /run/credentials/trainer /run/credentials/worker /run/credentials/control \
       /run/credentials/inference_server /run/credentials/gatekeeper /run/credentials/grafana /run/credentials/ui \
       /run/credentials/authority
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/cache \
    OMP_NUM_THREADS=1 \
    MKL_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1 \
    NUMBA_NUM_THREADS=1 \
    ZEROFLEET_RUN_DIR=/data \
    ZEROFLEET_MODEL_STORE=/models \
    ZEROFLEET_LOG_FORMAT=json \
    ZEROFLEET_METRICS_HOST=0.0.0.0 \
    ZEROFLEET_METRICS_PORT=9100
COPY deploy/docker/ready.py deploy/docker/prepare.py /opt/zerofleet/
WORKDIR /data
USER 10001:10001
EXPOSE 9100
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=180s --retries=6 CMD ["python", "-I", "-S", "/opt/zerofleet/ready.py"]

FROM service AS light
COPY --from=light_venv /opt/venv /opt/venv

FROM service AS heavy
COPY --from=heavy_venv /opt/venv /opt/venv

FROM service AS web
COPY --from=web_venv /opt/venv /opt/venv

# -- the images --------------------------------------------------------------------------------------------------------

FROM light AS prepare
HEALTHCHECK NONE
ENTRYPOINT ["python", "/opt/zerofleet/prepare.py"]
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="Zerofleet prepare" \
      org.opencontainers.image.description="Generates the passwords of a cluster and writes the header of its run" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

FROM light AS selfplay_worker
ENTRYPOINT ["python", "-m", "selfplay_worker"]
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="Zerofleet self-play worker" \
      org.opencontainers.image.description="Plays many games at once and publishes their records" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

FROM light AS gatekeeper
# Mount point of the volume of models, with the right owner even if a restore mounts the volume first.
USER root
RUN install -d -m 0750 -o zerofleet -g zerofleet /data/models
USER 10001:10001
ENV ZEROFLEET_ADDRESS=0.0.0.0:8002
EXPOSE 8002
ENTRYPOINT ["python", "-m", "gatekeeper"]
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="Zerofleet gatekeeper" \
      org.opencontainers.image.description="Plays candidates against the champion and promotes the stronger" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

FROM heavy AS inference_server
ENV ZEROFLEET_ADDRESS=0.0.0.0:8001
EXPOSE 8001
ENTRYPOINT ["python", "-m", "inference_server"]
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="Zerofleet inference server" \
      org.opencontainers.image.description="Evaluates positions in batches over the KServe v2 protocol" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

FROM heavy AS trainer
ENTRYPOINT ["python", "-m", "trainer"]
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="Zerofleet trainer" \
      org.opencontainers.image.description="Maintains the window of games, trains, and exports candidates" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

FROM web AS ui
ENV ZEROFLEET_PAGE_HOST=0.0.0.0 \
    ZEROFLEET_PAGE_PORT=8765 \
    ZEROFLEET_MODEL_STORE=/data/models
EXPOSE 8765
ENTRYPOINT ["python", "-m", "ui"]
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="Zerofleet pages" \
      org.opencontainers.image.description="Shows a run in a browser, and plays against its models" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

# Licences: docs/licences.md.
FROM ${REDIS_IMAGE} AS redis
LABEL org.opencontainers.image.licenses="LicenseRef-RSALv2 OR SSPL-1.0" \
      org.opencontainers.image.base.name="docker.io/library/redis:7-bookworm"
RUN install -d -m 0750 -o 10001 -g 10001 /var/lib/zerofleet /run/credentials /run/credentials/redis
COPY deploy/redis/redis.conf /etc/zerofleet/redis.conf
WORKDIR /var/lib/zerofleet
USER 10001:10001
EXPOSE 6379
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=6 \
    CMD REDISCLI_AUTH="$(cat /run/credentials/redis/probe)" redis-cli --user probe --no-auth-warning ping | grep -qx PONG
ENTRYPOINT []
CMD ["redis-server", "/etc/zerofleet/redis.conf"]
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="Zerofleet Redis" \
      org.opencontainers.image.description="Stream of games: Redis with the configuration of Zerofleet" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
