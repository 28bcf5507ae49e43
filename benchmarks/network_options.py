"""Options of the measurements of a network on a device: network, device, number format, backend and form of the output."""

from __future__ import annotations

import argparse
from typing import get_args

from inference_server.settings import BackendChoice, Precision

__all__ = ["command_line"]


def command_line(module: str, description: str) -> argparse.ArgumentParser:
    """Return the parser of a module of `benchmarks.gpu` with these options."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.gpu.{module}", description=description)
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--blocks", type=int, default=4, help="residual blocks of the network")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--device", default="auto", help="as of the inference server, such as cuda:0")
    parser.add_argument("--precision", choices=get_args(Precision), default="auto")
    parser.add_argument("--backend", choices=get_args(BackendChoice), default="auto")
    parser.add_argument("--json", action="store_true")
    return parser
