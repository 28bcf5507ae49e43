"""Build hook: the wheel's package, assembled from this checkout."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AssemblyHook(BuildHookInterface):  # type: ignore[misc, type-arg]
    """Replaces the folder of the client's own modules by the complete package."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Assemble the package in a temporary folder. Raises `ValueError` for anything but a wheel."""
        if self.target_name != "wheel" or version == "editable":
            raise ValueError(f"zerofleet-client is built as a wheel, not as {self.target_name} ({version}); see docs/client.md")
        self._folder = tempfile.TemporaryDirectory()
        builder = runpy.run_path(str(Path(self.root) / "assemble.py"))
        package = builder["assemble"](Path(self._folder.name))
        own = Path(self.root) / package.name
        for path in sorted(package.rglob("*")):
            inside = path.relative_to(package)
            if path.is_file() and not (own / inside).exists():
                build_data["force_include"][str(path)] = f"{package.name}/{inside.as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        self._folder.cleanup()
