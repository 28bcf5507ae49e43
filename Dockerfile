# One image for each service: docker build --target selfplay_worker .
#
#   light ── selfplay_worker, gatekeeper, prepare       without torch
#   heavy ── inference_server, trainer                  with torch
#   redis                                               Redis with this project's configuration
#
# Builds with BuildKit and without. What a build machine needs to reach its package index is given as build arguments;
# they are used in the stages `packages` and `torch` alone and do not reach an image. The base images may be given with
# their digest: PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:...
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG REDIS_IMAGE=redis:7-bookworm
# What the labels of every image say; they stand at its end, so that a new revision builds no layer anew.
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

FROM packages AS wheel
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY . .
RUN /opt/venv/bin/pip wheel --no-cache-dir --no-input --no-deps -w /wheel .

FROM packages AS light_venv
COPY --from=wheel /wheel /wheel
RUN /opt/venv/bin/pip install --no-cache-dir --no-index --no-deps /wheel/*.whl \
    && /opt/venv/bin/pip uninstall --yes --quiet pip setuptools

FROM packages AS torch
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
# The CPU build; https://download.pytorch.org/whl/cu128 for a GPU, empty for what the package index has.
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL} ${TORCH_INDEX_URL}" \
    /opt/venv/bin/pip install --no-cache-dir --no-input -c constraints.txt torch

FROM torch AS heavy_venv
COPY --from=wheel /wheel /wheel
RUN /opt/venv/bin/pip install --no-cache-dir --no-index --no-deps /wheel/*.whl \
    && /opt/venv/bin/pip uninstall --yes --quiet pip

# -- what every service has --------------------------------------------------------------------------------------------

FROM ${PYTHON_IMAGE} AS service
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim-bookworm"
# The folders are there so that a new volume mounted on them belongs to the user of the services.
RUN groupadd --gid 10001 zerofleet \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin zerofleet \
    && install -d -m 0750 -o zerofleet -g zerofleet /data /models /cache /backups \
       /run/credentials /run/credentials/redis /run/credentials/trainer /run/credentials/worker /run/credentials/control \
       /run/credentials/grafana /run/credentials/authority
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

# -- the images --------------------------------------------------------------------------------------------------------

FROM light AS prepare
HEALTHCHECK NONE
ENTRYPOINT ["python", "/opt/zerofleet/prepare.py"]
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="Zerofleet prepare" \
      org.opencontainers.image.description="Draws the passwords of a cluster and writes the header of its run" \
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
# The volume of models is mounted here, and belongs to us also where a restore is the first to use it.
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
      org.opencontainers.image.description="Plays candidates against the champion and decides who serves" \
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
      org.opencontainers.image.description="Keeps the window of games, trains, and exports candidates" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

# What is under which licence: docs/licences.md.
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
      org.opencontainers.image.description="The stream of games: Redis with the configuration of Zerofleet" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
