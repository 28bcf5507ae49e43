"""Debian packages of every built image, as build/sbom/IMAGE.debian.txt: name, version, source package.

The licence of each is in the image, as /usr/share/doc/PACKAGE/copyright. Without a Docker engine no file is written.

    python deploy/sbom/images.py build/sbom
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SERVICES = ("redis", "inference_server", "gatekeeper", "trainer", "selfplay_worker", "ui", "prepare")
FORMAT = "${Package} ${Version} ${source:Package}\\n"


def main(directory: Path) -> int:
    """Write a list for each image that exists."""
    docker, version = shutil.which("docker"), os.environ.get("ZEROFLEET_VERSION", "0.1.0")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        sys.stderr.write("no Docker engine is running: the images are not listed\n")
        return 0
    for service in SERVICES:
        image = f"zerofleet/{service}:{version}"
        command = [docker, "run", "--rm", "--network", "none", "--entrypoint", "dpkg-query", image, "-W", "-f", FORMAT]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        if listed.returncode:
            sys.stderr.write(f"{image} is not listed: {listed.stderr.strip().splitlines()[-1]}\n")
            continue
        (directory / f"{service}.debian.txt").write_text(listed.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
