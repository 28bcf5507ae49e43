"""A real Triton Inference Server on loopback, without Docker: out of the `nvidia-pytriton` wheel, CPU, Python backend.

Its Python backend needs numpy 1.x, so it lives in a virtual environment of its own, made on first use: the folder named
by TRITON_VENV, else one that is already in /var/tmp, else .cache/triton-venv of this checkout. It takes torch from the
environment that installs it, whose packages follow its own on the path. To make it by hand:

    python tests/contract/triton_server.py
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

# numpy 2 makes this Triton's Python backend answer with empty tensors, without an error; numpy 1 has wheels up to Python 3.12,
# and the library of Python 3.13 in the wheel lacks modules that Debian's Python has built in.
REQUIREMENTS = ("numpy<2",)
NEWEST_PYTHON = (3, 12)
WHEEL = "nvidia-pytriton==0.7.0"
CHECKOUT = Path(__file__).parents[2]
READY_MADE = Path("/var/tmp/triton-venv")
LIBRARY = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME") or "")
CAN_RUN = ".so" in LIBRARY.name and LIBRARY.is_file() and sys.version_info[:2] <= NEWEST_PYTHON
"""Whether Python is here with its shared library, which the backend loads; Debian has it in a package of its own."""
KINDS = ("zerofleet", "triton") if CAN_RUN else ("zerofleet",)
"""The servers that the contract is tested with here."""
START_ATTEMPTS = 3  # another process may take a port between our asking for a free one and Triton's taking it
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Installation:
    """Where an installed Triton lies."""

    venv: Path

    @property
    def site(self) -> Path:
        """Its Python packages."""
        return self.venv / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"

    @property
    def server(self) -> Path:
        """Triton itself."""
        return self.site / "pytriton" / "tritonserver"

    @property
    def backends(self) -> Path:
        """The backends, put together with the stub of this Python."""
        return self.venv / "backends"

    @property
    def complete(self) -> bool:
        """Whether it can be started."""
        return (self.backends / "python" / "triton_python_backend_stub").is_file() and self.server.is_dir()

    def environment(self) -> dict[str, str]:
        """Environment of the server process: it finds this venv's Python, and nothing of ours."""
        libraries = f"{sysconfig.get_config_var('LIBDIR')}:{self.site / 'nvidia_pytriton.libs'}"
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        # One thread a model: several versions share two cores.
        return kept | {
            "LD_LIBRARY_PATH": libraries,
            "PATH": f"{self.venv / 'bin'}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }


def install() -> Installation:
    """Return Triton, installing it first where it is missing. Several processes may ask at once."""
    found = Installation(_place())
    if found.complete:
        return found
    found.venv.parent.mkdir(parents=True, exist_ok=True)
    with found.venv.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.complete:
            _install_into(found)
    return found


def _place() -> Path:
    if named := os.environ.get("TRITON_VENV"):
        return Path(named)
    return READY_MADE if Installation(READY_MADE).complete else CHECKOUT / ".cache" / "triton-venv"


def _install_into(target: Installation) -> None:
    version = sysconfig.get_python_version()
    subprocess.run([sys.executable, "-m", "venv", "--clear", target.venv], check=True)
    pip = [target.venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *REQUIREMENTS], check=True)
    subprocess.run([*pip, "--no-deps", WHEEL], check=True)
    (target.site / "torch.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # a second torch would be a gigabyte
    stub = target.server / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.is_file():
        raise RuntimeError(f"{WHEEL} has no backend for Python {version}; run the tests with Python 3.11")
    shutil.copytree(target.server / "backends" / "python", target.backends / "python", dirs_exist_ok=True)
    for program in (shutil.copy(stub, target.backends / "python"), target.server / "bin" / "tritonserver"):
        Path(program).chmod(0o755)


@contextmanager
def running(repository: Path | str, log: Path, *arguments: str) -> Iterator[str]:
    """Serve a model repository under explicit control; yield the gRPC address, and end it afterwards."""
    installed = install()
    for attempt in range(START_ATTEMPTS):
        process, address = _start(installed, repository, log, *arguments)
        try:
            if _live(process, address):
                yield address
                return
        finally:
            _stop(process)
        if attempt == START_ATTEMPTS - 1:
            raise RuntimeError(f"Triton did not start; the end of its log:\n{log.read_text()[-3000:]}")


def _start(installed: Installation, repository: Path | str, log: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], str]:
    grpc_port, http_port, metrics_port = _free_ports(3)
    command = [
        installed.server / "bin" / "tritonserver",
        f"--model-repository={repository}",
        f"--backend-directory={installed.backends}",
        "--model-control-mode=explicit",
        "--strict-readiness=false",  # else one broken candidate makes the whole server unready for good
        "--exit-timeout-secs=5",
        *("--grpc-address=127.0.0.1", f"--grpc-port={grpc_port}"),
        *("--http-address=127.0.0.1", f"--http-port={http_port}"),
        *("--metrics-address=127.0.0.1", f"--metrics-port={metrics_port}"),
        *arguments,
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=installed.environment(), stdout=out, stderr=out, start_new_session=True)
    return process, f"127.0.0.1:{grpc_port}"


def _live(process: subprocess.Popen[bytes], address: str) -> bool:
    """Wait until the server answers; False when its process has ended."""
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for _ in range(int(START_TIMEOUT_S)):
            try:
                stub.ServerLive(messages.ServerLiveRequest(), timeout=1.0, wait_for_ready=True)
            except grpc.RpcError:
                if process.poll() is not None:
                    return False
            else:
                return process.poll() is None
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its backend processes are in its group
        process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


if __name__ == "__main__":
    newest = ".".join(map(str, NEWEST_PYTHON))
    wanted = f"without Triton: its Python backend needs {LIBRARY}, of Python {newest} at most\n"
    sys.stdout.write(f"{install().venv}\n" if CAN_RUN else wanted)
