"""Requirements of an image: the dependencies of pyproject.toml except those after --without, plus the extras after --with."""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def main(arguments: list[str]) -> int:
    """Print one requirement per line. A name after --without that pyproject.toml does not list is an error."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--without", nargs="*", default=[], metavar="PACKAGE")
    parser.add_argument("--with", nargs="*", default=[], metavar="EXTRA", dest="extras")
    given = parser.parse_args(arguments)
    without = set(given.without)
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    named = {_NAME.match(line)[0]: line for line in project["dependencies"]}  # type: ignore[index]
    if unknown := without - named.keys():
        sys.stderr.write(f"pyproject.toml lists no {', '.join(sorted(unknown))}; it lists {', '.join(sorted(named))}\n")
        return 2
    lines = [line for name, line in named.items() if name not in without]
    lines += [line for extra in given.extras for line in project["optional-dependencies"][extra]]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
