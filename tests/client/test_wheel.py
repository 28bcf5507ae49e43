"""Files and imports of the client's wheel, and its installation beside the product."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from fake_network import MODEL

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PRODUCT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

IMPORTS = """
import sys, zerofleet_client
rooms = {name.partition(".")[0] for name in sys.modules}
print(*sorted(rooms & {"torch", "numba", "numpy", "zerofleet", "games", "tritonclient", "structlog", "pydantic"}))
"""
OTHER_RELEASE = """
import pathlib, sys
from google.protobuf import descriptor_pb2, descriptor_pool

for name in ("evaluation", "gatekeeper"):
    file = descriptor_pb2.FileDescriptorProto(name=f"zerofleet/contracts/wire/{name}.proto", package="zerofleet.v1")
    file.message_type.add(name="EvaluateRequest" if name == "evaluation" else "Champion")
    descriptor_pool.Default().Add(file)

from zerofleet_client.contracts.wire import evaluation_pb2, gatekeeper_pb2

message = evaluation_pb2.EvaluateRequest(game="othello", moves=["d3"], parameters={"size": "6"})
assert evaluation_pb2.EvaluateRequest.FromString(message.SerializeToString()) == message
assert gatekeeper_pb2.Champion(version=3).version == 3
"""


def run(program: str, site: Path) -> str:
    """Return what a program prints that sees the installed client, and of this checkout nothing."""
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_wheel_holds_one_package_with_types_protos_and_licence(contents):
    assert {name.partition("/")[0] for name in contents} == {
        "zerofleet_client",
        f"zerofleet_client-{PRODUCT['version']}.dist-info",
    }
    assert "zerofleet_client/py.typed" in contents
    for proto in (ROOT / "proto").rglob("*.proto"):
        shipped = "zerofleet_client" / proto.relative_to(ROOT)
        assert contents[shipped.as_posix()] == proto.read_text()
        stub = f"zerofleet_client/contracts/wire/{proto.stem}_pb2"
        assert {f"{stub}.py", f"{stub}.pyi", f"{stub}_grpc.py", f"{stub}_grpc.pyi"} <= set(contents)
    (licence,) = [text for name, text in contents.items() if name.endswith("LICENSE")]
    assert licence == (ROOT / "LICENSE").read_text()
    assert sum(map(len, contents.values())) < 300_000


def test_no_module_of_the_wheel_imports_the_product(contents):
    product = re.compile(r"^\s*(?:from|import) (?:zerofleet|games)\b", re.MULTILINE)
    assert [name for name, text in contents.items() if name.endswith((".py", ".pyi")) and product.search(text)] == []


def test_the_metadata_are_those_of_the_product(contents):
    (text,) = [text for name, text in contents.items() if name.endswith("METADATA")]
    assert f"\nVersion: {PRODUCT['version']}\n" in text
    required = re.findall(r"^Requires-Dist: ([\w-]+)(.*)$", text, re.MULTILINE)
    assert [name for name, _ in required] == ["grpcio", "protobuf"]
    wanted = {re.match(r"[\w-]+", line).group(): line for line in PRODUCT["dependencies"]}
    for name, bounds in required:
        assert set(bounds.split(",")) == set(wanted[name].removeprefix(name).split(","))
    assert f"Requires-Python: {PRODUCT['requires-python']}" in text
    assert "License-Expression: Apache-2.0" in text
    assert "# zerofleet-client" in text


def test_the_oldest_protobuf_allowed_is_the_one_of_the_stubs(contents):
    (bounds,) = [line for line in PRODUCT["dependencies"] if line.startswith("protobuf")]
    stubs = [text for name, text in contents.items() if name.endswith("_pb2.py")]
    made_by = {re.search(r"Domain\.PUBLIC,\s+(\d+),\s+(\d+),\s+(\d+),", text).groups() for text in stubs}
    assert made_by == {tuple(re.search(r">=([\d.]+)", bounds)[1].split("."))}


def test_importing_the_client_imports_neither_the_product_nor_its_libraries(installed):
    assert run(IMPORTS, installed) == ""


def test_the_client_works_beside_another_release_of_the_messages(installed):
    run(OTHER_RELEASE, installed)


def test_the_shared_values_of_product_and_client_have_one_form(library):
    from zerofleet.contracts import promotions  # noqa: PLC0415

    assert [str(status) for status in library.CandidateStatus] == [str(status) for status in promotions.CandidateStatus]
    assert library.Champion.__slots__ == promotions.Champion.__slots__


def test_a_status_of_a_newer_gatekeeper_names_the_remedy(library):
    operations = importlib.import_module("zerofleet_client.operations")
    wire = importlib.import_module("zerofleet_client.contracts.wire.gatekeeper_pb2")
    operation = operations.versions(MODEL)
    assert next(operation).method == "ListModels"
    with pytest.raises(library.ConfigurationError, match=r"version 7 .* install that of the gatekeeper"):
        operation.send(wire.ListModelsReply(models=[wire.Candidate(version=7, status=99)]))


def test_the_package_has_the_version_of_the_product(library):
    assert library.__version__ == PRODUCT["version"]


def test_the_offered_names_exist_and_are_sorted(library):
    assert sorted(library.__all__) == library.__all__
    assert all(hasattr(library, name) for name in library.__all__)


@pytest.mark.parametrize("page", ["client/README.md", "docs/client.md"])
async def test_the_examples_of_the_pages_run_as_they_stand(page, installed, wire, open_gate):
    examples = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert examples
    async with open_gate() as gate:
        await gate.offer()
        program = "\n".join(examples)
        for shown, real in (("127.0.0.1:8001", wire.server.address), ("127.0.0.1:8002", gate.gatekeeper.address)):
            program = program.replace(shown, real)
        said = await asyncio.to_thread(run, program, installed)
    assert "Champion(model='tic_tac_toe', version=1" in said
    assert "player 2 to move" in said
    assert MODEL in program
