"""What holds for all tests, and an object store for those that want one."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given, settings, strategies

import games
from games import code_sources

# The first example may wait for the compiler, and time says little on a shared machine.
settings.register_profile("zerofleet", deadline=None)
settings.load_profile("zerofleet")

# A test process comes to millions of objects, most of them of the compiler, which every collection of the oldest generation
# searches: a tenth of the processor time of a compilation, by the default thresholds of 700, 10 and 10.
gc.set_threshold(50_000, 20, 20)

# As the command line logs: without the values of local variables, which take a second of a processor to print.
_RENDERING = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(
    [*structlog.get_config()["processors"][:-1], _RENDERING],
    logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
)


LONGEST = frozenset({"contract", "mutations", "processes"})
"""Folders whose tests wait for processes for a minute and more."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest tests where several processes share all: none waits at the end for one that began last."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: LONGEST.isdisjoint(item.path.parts))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the thousands of tests and their modules out of all collections.

    The first example makes hypothesis register its random source, which it looks for among the objects that collections
    search: with Python 3.14 those hold the dictionary of its thread before the first example, and lose it here.
    """
    _first_example()
    gc.freeze()


@settings(max_examples=1, database=None)
@given(strategies.none())
def _first_example(_: None) -> None:
    """Do nothing."""


class ObjectServer:
    """moto's S3 on a real port. It takes one request after another: its conditions are then as atomic as Amazon's."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415 - slow to import

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = DomainDispatcherApplication(create_backend_app)
        self._buckets = itertools.count(1)
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": "key-of-the-tests", "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests"}
        return {**keys, "AWS_ENDPOINT_URL": self.url, "AWS_REGION": "eu-central-1", "AWS_CONFIG_FILE": os.devnull}

    def start(self) -> None:
        """Listen, on the same port as before."""
        from werkzeug.serving import make_server  # noqa: PLC0415

        self._server = make_server("127.0.0.1", self._port, self._app, threaded=False)
        self._port = self._server.port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more; the objects stay."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def client(self) -> Any:
        """The client with every right, for all tests of the process: boto3 takes a tenth of a second to make one."""
        return self._client

    @functools.cached_property
    def _client(self) -> Any:
        import boto3  # noqa: PLC0415

        keys = {"aws_access_key_id": "key-of-the-tests", "aws_secret_access_key": "secret-of-the-tests"}
        return boto3.client("s3", region_name="eu-central-1", endpoint_url=self.url, **keys)

    def make_bucket(self) -> str:
        """Create a bucket of its own for a test, and return its name."""
        name = f"bucket-{next(self._buckets)}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        return name


@pytest.fixture(scope="session")
def _object_server() -> Iterator[ObjectServer]:
    from botocore.loaders import JSONFileLoader  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:  # every session would read a megabyte about S3 again
        patch.setattr(JSONFileLoader, "load_file", functools.cache(JSONFileLoader.load_file))
        patch.setattr(JSONFileLoader, "__eq__", lambda one, other: type(one) is type(other), raising=False)
        patch.setattr(JSONFileLoader, "__hash__", lambda one: hash(type(one)), raising=False)
        server = ObjectServer()
        yield server
        server.stop()


@pytest.fixture
def object_server(_object_server, monkeypatch) -> ObjectServer:
    """An S3 server, with the variables by which this process and its children find it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in _object_server.environment.items():
        monkeypatch.setenv(name, value)
    return _object_server


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list to which the path of every file and directory is added that this process syncs from now on."""
    found: list[Path] = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    return found


@pytest.fixture
def fault_in_rules() -> Exception:
    """An exception that a rule of tic-tac-toe raised."""
    rules = {(cls.__name__, function.__name__): function for cls, function in code_sources.rules()}
    try:
        rules["TicTacToe", "play"](games.make("tic_tac_toe"), None, 0)
    except TypeError as error:
        return error
    raise AssertionError("a rule took None for a position")
