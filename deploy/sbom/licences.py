"""Runtime dependencies and their licences: the table docs/licences.md, and a bill of materials without development tools.

    python deploy/sbom/licences.py                         write docs/licences.md from the installed packages
    python deploy/sbom/licences.py --sbom IN.json OUT.json  keep the runtime components of a CycloneDX document

Included are the transitive `dependencies` of pyproject.toml and of its installed extras other than `dev` and `docs`. A
licence must be one of `ALLOWED`; a package without a known one is an error.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "licences.md"

ALLOWED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "HPND",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
    }
    | {"MPL-2.0", "PSF-2.0", "Unlicense", "Zlib"}
)
"""SPDX names of licences compatible with redistribution under Zerofleet's; `BSD` for metadata without a clause count."""

# Names in older metadata, without an SPDX expression.
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}
_TEXTS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "BSD 3-Clause License": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
}
# The CUDA build of torch depends on NVIDIA's libraries, under NVIDIA's terms; the images are built without them.
_OF_CUDA = re.compile(r"^(nvidia-|cuda-|triton$)")
# The images contain the newest release of this Python. Packages for older ones (redis needs async-timeout before 3.11.3) are
# not in them.
_NEWEST = "{}.{}.99".format(*sys.version_info)

HEAD = """\
# Licences

Zerofleet is under the Apache licence 2.0 ([LICENSE](../LICENSE)). This page lists its runtime dependencies and those of its
extras `s3`, `traces` and `ui`, including transitive ones, with the licence in their metadata; `make sbom` writes the same as a
CycloneDX document with versions, and lists the Debian packages of each image if a Docker engine is running. A package under
another licence, or without a known one, fails the tests. Development tools and the extras `tensorboard` and `wandb` are not
listed: they are not in the images. Nor are NVIDIA's libraries, on which the CUDA build of torch depends, under NVIDIA's terms;
the images contain the CPU build by default.

To regenerate this page: `.venv/bin/python deploy/sbom/licences.py`.

## Images

The cluster starts third-party programs as well. They run beside ours, unmodified, and none is part of Zerofleet; anyone who
redistributes the images must comply with their terms.

| image | licence |
| --- | --- |
| `python:3.11-slim-bookworm`, base of all of ours | PSF-2.0; Debian's packages by `/usr/share/doc/*/copyright` inside |
| `redis:7-bookworm` | 7.4: RSALv2 or SSPLv1; up to 7.2, selected by `ZEROFLEET_REDIS_IMAGE=redis:7.2-bookworm`, BSD-3-Clause |
| `prom/prometheus`, with the profile `observability` | Apache-2.0 |
| `grafana/grafana`, with the profile `observability` | AGPL-3.0 |
| `nvcr.io/nvidia/tritonserver`, with `compose.triton.yml` | BSD-3-Clause, the image NVIDIA's container licence |

## Parts of the package

The pages of `zerofleet ui` contain one library of others, unmodified, with its licence beside it.

| part | licence |
| --- | --- |
| uPlot 1.6.32, `ui/static/vendor/uplot` | MIT |

## Packages

| package | licence |
| --- | --- |
"""


def runtime_packages() -> dict[str, Distribution]:
    """Return the distributions needed at run time, those of installed extras included, by canonical name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project.get("optional-dependencies", {})
    extras = [line for name, lines in optional.items() if name not in {"dev", "docs"} for line in lines]
    found: dict[tuple[str, frozenset[str]], Distribution] = {}
    queue = [(Requirement(line), frozenset({""}), True) for line in project["dependencies"]]
    queue += [(Requirement(line), frozenset({""}), False) for line in extras]
    while queue:
        wanted, active, is_required = queue.pop()
        name, key = canonicalize_name(wanted.name), (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in found or not _applies(wanted, active):
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:
            if is_required:
                raise
            continue
        of_it = frozenset({"", *wanted.extras})
        queue += [(Requirement(line), of_it, is_required) for line in found[key].requires or ()]
    return {name: package for (name, _), package in sorted(found.items()) if not _OF_CUDA.match(name)}


def licence_of(metadata: Any) -> str | None:
    """Return the licence in a package's metadata as an SPDX expression; None if there is no known one."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or () if line.startswith("License ::")]
    named = [_CLASSIFIERS.get(name) for name in classifiers if name != "OSI Approved"]
    if named and None not in named:
        return " OR ".join(sorted({str(name) for name in named}))
    text = str(metadata.get("License") or "").strip().split("\n")[0].strip()
    return text if text in ALLOWED else _TEXTS.get(text)


def is_allowed(expression: str) -> bool:
    """Return whether an SPDX expression is allowed: in every AND part at least one OR part; exceptions only add rights."""
    parts = re.split(r"\s+AND\s+", expression.replace("(", "").replace(")", ""))
    return all(any(re.sub(r"\s+WITH\s+\S+$", "", one).strip() in ALLOWED for one in re.split(r"\s+OR\s+", p)) for p in parts)


def faults(packages: Mapping[str, Any]) -> list[str]:
    """Return the faults of packages' licences, one line each; `packages`: metadata by name."""
    found = []
    for name, metadata in packages.items():
        licence = licence_of(metadata)
        if licence is None:
            found.append(f"{name} names no licence known here; look it up, or remove the package")
        elif not is_allowed(licence):
            found.append(f"{name} is under {licence}, which is not among {', '.join(sorted(ALLOWED))}")
    return found


def page(packages: Mapping[str, Distribution]) -> str:
    """Return the text of docs/licences.md."""
    return HEAD + "".join(f"| {name} | {licence_of(package.metadata)} |\n" for name, package in packages.items())


def runtime_part(sbom: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a CycloneDX document with only the components of these names and their relations."""
    wanted = set(names)
    components = [one for one in sbom.get("components", []) if canonicalize_name(one["name"]) in wanted]
    root = sbom.get("metadata", {}).get("component", {}).get("bom-ref")
    kept = {one["bom-ref"] for one in components} | {root}
    relations = [
        {**one, "dependsOn": [ref for ref in one["dependsOn"] if ref in kept]} if "dependsOn" in one else one
        for one in sbom.get("dependencies", [])
        if one["ref"] in kept
    ]
    return {**sbom, "components": components, "dependencies": relations}


def _applies(wanted: Requirement, active: frozenset[str]) -> bool:
    stated = {"python_full_version": _NEWEST}
    return wanted.marker is None or any(wanted.marker.evaluate({"extra": extra, **stated}) for extra in active)


def main(arguments: list[str]) -> int:
    """Write the table, or the runtime part of a bill of materials; return 1 when a licence is not allowed."""
    packages = runtime_packages()
    wrong = faults({name: package.metadata for name, package in packages.items()})
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    if arguments[:1] == ["--sbom"]:
        source, target = map(Path, arguments[1:])
        target.write_text(json.dumps(runtime_part(json.loads(source.read_text()), packages), indent=2) + "\n")
    else:
        TABLE.write_text(page(packages))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
