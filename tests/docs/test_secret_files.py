"""Files in which people keep secrets: none is committed, none enters an image."""

from __future__ import annotations

import posixpath
import re

import working_tree

ROOT = working_tree.ROOT
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"\bcd (?P<folder>\S+)|urandom .*> (?P<made>\S+)|--from-file=(\w+=)?(?P<taken>\S+)")


def test_no_file_of_secrets_enters_an_image():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*"
    let_in = {line.removeprefix("!") for line in patterns if line.startswith("!")}
    assert let_in
    assert not {name for name in let_in if name.strip("./") in {"", "*", "**"} or name.startswith(".env")}
    entering = [name for name in working_tree.files() if any(f"{name}/".startswith(f"{each}/") for each in let_in)]
    assert "pyproject.toml" in entering
    suspicious = [
        name for name in entering if re.search(r"(^|/)\.env|\.(pem|key|crt|p12)$|(^|/)(tokens?|passwords?)(\.txt)?$", name)
    ]
    assert suspicious == []


def test_git_ignores_files_with_secrets():
    for name in (".env", "tls.key", "credentials/token"):
        assert working_tree.IGNORED.match_file(name), f"{name} would be committed"


def test_git_ignores_every_file_of_secrets_that_a_page_makes():
    named = set()
    for page in (name for name in working_tree.files() if name.endswith(".md")):
        folder = ""
        for found in PLACE.finditer("".join(CONSOLE.findall((ROOT / page).read_text()))):
            place = posixpath.join(folder, found["folder"] or found["made"] or found["taken"])
            if found["folder"]:
                folder = posixpath.normpath(place)
            else:
                named.add(posixpath.normpath(place))
    assert {"credentials/token", "certs/trainer"} <= named
    assert {name for name in named if not working_tree.IGNORED.match_file(name)} == set()


def test_the_example_of_the_settings_contains_no_secret():
    for line in (ROOT / ".env.example").read_text().splitlines():
        if re.match(r"# ZEROFLEET_\w*(TOKEN|TOKENS|PASSWORD)=", line):
            assert line.endswith("="), line
