"""Build hook: the compiled kernel in a wheel and in an editable install, where there is a C compiler.

Without a compiler the package is complete except for the kernel; networks then run in TorchScript, and `zerofleet doctor`
states the reason.
"""

from __future__ import annotations

import runpy
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = "zerofleet/evaluators/native"


class NativeKernelHook(BuildHookInterface):  # type: ignore[misc, type-arg]
    """Adds the shared library to the wheel, which is then one of this platform, for any Python 3."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library: in place for an editable install, else in a temporary folder."""
        if self.target_name != "wheel":
            return
        builder = runpy.run_path(str(Path(self.root) / NATIVE / "build.py"))
        editable = version == "editable"
        self._folder = None if editable else tempfile.TemporaryDirectory()
        try:
            library = builder["build"](into=None if self._folder is None else Path(self._folder.name))
        except builder["BuildFailed"] as error:
            self.app.display_warning(f"without the native kernel: {error}")
            return
        if not editable:
            build_data["force_include"][str(library)] = f"{NATIVE}/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
