#!/bin/sh
# Starts Triton with the key required to load models. Only the gRPC port and the metrics are reachable from outside.
set -eu
key=$(cat "${ZEROFLEET_TOKEN_FILE:-/run/credentials/control/token}")
guarded=model-repository,model-config,shared-memory,trace,logging # access to these amounts to running code in the server
exec tritonserver \
    --model-repository="${ZEROFLEET_MODEL_STORE:-/models}" \
    --model-control-mode=explicit \
    --strict-readiness=false \
    --exit-timeout-secs=20 \
    --grpc-address=0.0.0.0 --grpc-port=8001 \
    --grpc-restricted-protocol="$guarded:x-zerofleet-token=$key" \
    --http-address=127.0.0.1 --http-port=8000 \
    --http-restricted-api="$guarded:x-zerofleet-token=$key" \
    --metrics-address=0.0.0.0 --metrics-port=9100 \
    "$@"
