"""Health check of the images: exits with 0 when the service in this container is ready, 1 otherwise."""

from __future__ import annotations

import os
import socket
import sys

TIMEOUT_S = 2.0


def main() -> int:
    """Request /readyz; through a bare socket, as importing an HTTP client would take longer than the request."""
    port = int(os.environ.get("ZEROFLEET_METRICS_PORT", "9100"))
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError as error:
        sys.stdout.write(f"/readyz on port {port}: {error}\n")
        return 1
    sys.stdout.write(answer.rpartition(b"\r\n\r\n")[2].decode(errors="replace"))
    return 0 if answer.startswith(b"HTTP/1.1 200 ") else 1


if __name__ == "__main__":
    raise SystemExit(main())
