"""The volumes of a soak as small disks of their own: images mounted through loop devices, which can be full or slow.

    DIR/images/run.img    an ext4 file system in a sparse file
    DIR/disks/run         where it is mounted; the volume `run` of the cluster is bound to it

Without root or loop devices the disks are plain folders, which can be neither.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

DISKS = ("run", "models", "stream")
USER = 10001  # of the images
FILL = "soak-fills-this-disk"
_BLOCK = b"\0" * 4096


class Disks:
    """Three disks below a folder; `missing` says why they are no devices, empty where they are."""

    def __init__(self, folder: Path, *, size_mib: int) -> None:
        self._images = folder / "images"
        self._mounts = folder / "disks"
        self._size_bytes = size_mib << 20
        self.missing = cannot_mount(folder)

    def path(self, disk: str) -> Path:
        return self._mounts / disk

    def open(self) -> None:
        """Make what is absent, mount what is not mounted, and free what an interrupted slice has filled."""
        for disk in DISKS:
            self.path(disk).mkdir(parents=True, exist_ok=True)
            if not self.missing and not os.path.ismount(self.path(disk)):
                self._mount(disk)
            self.release(disk)
            if not any(self.path(disk).iterdir()):
                self.path(disk).chmod(0o777)
                if os.geteuid() == 0:
                    os.chown(self.path(disk), USER, USER)

    def close(self) -> None:
        """Unmount every disk; the images stay."""
        for disk in DISKS:
            if os.path.ismount(self.path(disk)):
                _run("umount", str(self.path(disk)))

    def remove(self) -> None:
        """Remove the disks with everything on them."""
        self.close()
        shutil.rmtree(self._images, ignore_errors=True)
        shutil.rmtree(self._mounts, ignore_errors=True)

    def fill(self, disk: str) -> None:
        """Take every free block of a disk."""
        with (self.path(disk) / FILL).open("wb", buffering=0) as file:
            free = os.statvfs(file.fileno())
            if free.f_bavail:
                os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail - 64) * free.f_frsize)
            file.seek(0, os.SEEK_END)
            try:
                while True:
                    file.write(_BLOCK)
            except OSError:  # full, which is wanted
                pass

    def release(self, disk: str) -> None:
        (self.path(disk) / FILL).unlink(missing_ok=True)

    def device(self, disk: str) -> str:
        """Return the number of the device below a disk, as control groups write it."""
        number = self.path(disk).stat().st_dev
        return f"{os.major(number)}:{os.minor(number)}"

    def _mount(self, disk: str) -> None:
        image = self._images / f"{disk}.img"
        if not image.exists():
            self._images.mkdir(parents=True, exist_ok=True)
            with image.open("wb") as file:
                file.truncate(self._size_bytes)
            _run("mkfs.ext4", "-q", "-m", "0", str(image))
        _run("mount", "-o", "loop", str(image), str(self.path(disk)))
        shutil.rmtree(self.path(disk) / "lost+found", ignore_errors=True)


def cannot_mount(folder: Path) -> str:
    """Return why this machine mounts no image; empty where it does. Mounts one for a moment."""
    if os.geteuid() != 0:
        return "mounting an image needs root"
    if absent := [name for name in ("mkfs.ext4", "mount", "umount") if not shutil.which(name)]:
        return f"{', '.join(absent)} not found"
    trial, place = folder / "trial.img", folder / "trial"
    place.mkdir(parents=True, exist_ok=True)
    try:
        with trial.open("wb") as file:
            file.truncate(4 << 20)
        _run("mkfs.ext4", "-q", str(trial))
        _run("mount", "-o", "loop", str(trial), str(place))
        _run("umount", str(place))
    except RuntimeError as error:
        return str(error)
    finally:
        trial.unlink(missing_ok=True)
        place.rmdir()
    return ""


def _run(*command: str) -> None:
    """Run a command; raises `RuntimeError` with its output when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
