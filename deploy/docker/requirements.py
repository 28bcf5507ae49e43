"""Print the packages that an image needs: those of pyproject.toml but for the ones named after --without."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def main(arguments: list[str]) -> int:
    """Print one requirement a line. Names that pyproject.toml does not list are an error: the image would be a larger one."""
    without = set(arguments[1:] if arguments[:1] == ["--without"] else arguments)
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    named = {_NAME.match(line)[0]: line for line in project["dependencies"]}  # type: ignore[index]
    if unknown := without - named.keys():
        sys.stderr.write(f"pyproject.toml lists no {', '.join(sorted(unknown))}; it lists {', '.join(sorted(named))}\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for name, line in named.items() if name not in without))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
