"""External links of the documentation: `make links` opens each once. It needs a network, so no test and no CI job runs it.

Links to the reader's own machine and to reserved names such as `example.org` are left out.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError

import pages

LINK = re.compile(r"(?:\]\(|<)(https?://[^)\s>#]+)")
OWN = re.compile(r"https?://(?:127\.0\.0\.1|localhost|[a-z]+(?=[:/])|[^/]*\bexample\.(?:org|com|net))(?=[:/]|$)")
TIMEOUT_S = 20.0
AT_ONCE = 4
REFUSED_TO_PROGRAMS = {403, 429}  # the page exists; its server answers browsers alone, or not as often


def documents(root: Path) -> list[Path]:
    """Return the pages of the documentation."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("client/*.md"), *root.glob("deploy/**/*.md")])


def external_links(files: Iterable[Path]) -> dict[str, Path]:
    """Return the first file of each external link outside blocks of code."""
    found: dict[str, Path] = {}
    for file in files:
        for target in LINK.findall("\n".join(pages.prose(file.read_text(encoding="utf-8")))):
            if not OWN.match(target):
                found.setdefault(target, file)
    return found


def opened(address: str) -> str:
    """Open an address; return the fault, or nothing."""
    request = urllib.request.Request(address, headers={"User-Agent": "zerofleet-documentation"})  # noqa: S310  (http or https, by LINK)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310
            return ""
    except HTTPError as error:  # an answer, whose connection is open
        with error:
            return "" if error.code in REFUSED_TO_PROGRAMS else f"status {error.code}"
    except OSError as error:
        return str(error)


def main(root: Path = pages.ROOT, open_one: Callable[[str], str] = opened) -> int:
    """Open every link; print those with a fault, and return 1 if there are any."""
    links = external_links(documents(root))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        faults = {link: fault for link, fault in zip(links, pool.map(open_one, links), strict=True) if fault}
    for link, fault in faults.items():
        print(f"{links[link].relative_to(root)}: {link}: {fault}")
    print(f"{len(links)} external links, {len(faults)} with a fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
