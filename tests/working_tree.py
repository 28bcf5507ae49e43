"""Files of the working tree that a commit would contain, found without git: an exported tree has no repository."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from pathspec import GitIgnoreSpec

ROOT = Path(__file__).parents[1]
IGNORED = GitIgnoreSpec.from_lines([".git", *(ROOT / ".gitignore").read_text().splitlines()])


@cache
def files() -> tuple[str, ...]:
    """Return the names of all files except those that `.gitignore` names, relative to the root, sorted."""
    found: list[str] = []
    for at, folders, names in os.walk(ROOT):
        folder = Path(at).relative_to(ROOT)
        folders[:] = [name for name in folders if not IGNORED.match_file(f"{(folder / name).as_posix()}/")]
        found += [name for name in ((folder / name).as_posix() for name in names) if not IGNORED.match_file(name)]
    return tuple(sorted(found))
