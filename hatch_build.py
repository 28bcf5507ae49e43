"""Build hooks: the compiled kernel, and the metadata that need the address of the repository.

The kernel is in a wheel and in an editable install where there is a C compiler. Without one the package is complete except for
the kernel; networks then run in TorchScript, and `zerofleet doctor` states the reason.

The address is the variable `ZEROFLEET_HOME_URL` of the build, such as `https://github.com/OWNER/zerofleet`. A package index
shows the README away from its repository: links and images get absolute addresses, and without the variable become their text.
"""

from __future__ import annotations

import os
import re
import runpy
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

HOME_VARIABLE = "ZEROFLEET_HOME_URL"
README = "README.md"
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>(?!https?://|mailto:)[^()\s]+)\)")
_LINKED_IMAGE = re.compile(rf"\[(?P<shown>{_LINK.pattern})\]\((?P<to>(?!https?://|mailto:)[^()\s]+)\)")

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


class AddressHook(MetadataHookInterface):  # type: ignore[misc]
    """Long description and links of a distribution, of this folder or of one below."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` and `urls`."""
        home = os.environ.get(HOME_VARIABLE, "").rstrip("/")
        folder = Path(self.root).resolve()
        top = Path(__file__).resolve().parent
        text = describe((folder / README).read_text(), home=home, folder=folder.relative_to(top).as_posix())
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        pages = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md", "Security": "SECURITY.md"}
        addresses = {name: f"{home}/blob/HEAD/{page}" for name, page in pages.items()}
        metadata["urls"] = {"Homepage": home, **addresses, "Issues": f"{home}/issues"} if home else {}


def describe(text: str, *, home: str, folder: str) -> str:
    """Return a page in Markdown whose relative links and images are absolute, or their text where there is no `home`.

    folder: place of the page in the repository, `.` for its root. Links within the page stay.
    """

    def absolute(target: str, kind: str) -> str:
        path = os.path.normpath(f"{folder}/{target}") if folder != "." else target
        return f"{home}/{kind}/HEAD/{path}"

    def replaced(link: re.Match[str]) -> str:
        image, shown, target = link["image"], link["text"], link["target"]
        if target.startswith("#"):
            return link.group()
        return f"{image}[{shown}]({absolute(target, 'raw' if image else 'blob')})" if home else shown

    def linked(link: re.Match[str]) -> str:
        shown = _LINK.sub(replaced, link["shown"])
        return f"[{shown}]({absolute(link['to'], 'blob')})" if home else shown

    pieces = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        piece if piece.startswith("```") else _LINK.sub(replaced, _LINKED_IMAGE.sub(linked, piece)) for piece in pieces
    )
