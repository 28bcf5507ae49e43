"""Worker of a run as a stand-in: it shows games in progress at an HTTP port, and is announced like the service."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from zerofleet.contracts.games_in_progress import GameInProgress, written_games
from zerofleet.storage.run_paths import RunPaths

__all__ = ["StandInWorker"]


class StandInWorker:
    """Worker between `start` and `stop`, any number of times."""

    def __init__(self, paths: RunPaths, game: str, *, name: str = "worker-0") -> None:
        """Create it; nothing is announced yet."""
        self._name = name
        self.paths = paths
        self.run = paths.root.name
        self.games: list[GameInProgress] = []
        self._game = game
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Serve, on a free port, and announce it."""
        worker = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = written_games(worker._name, worker._game, list(worker.games))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        said = {"service": "selfplay_worker", "pid": os.getpid(), "address": "", "metrics_port": self._server.server_port}
        self.paths.services.mkdir(parents=True, exist_ok=True)
        self.paths.announce(self._name).write_text(json.dumps(said))

    def stop(self) -> None:
        """Stop answering, as a crash does: the announce file stays."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._server = None
