"""Files in which people keep secrets: none is committed, none enters an image."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_file_of_secrets_enters_an_image():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*"
    let_in = {line.removeprefix("!") for line in patterns if line.startswith("!")}
    assert let_in
    assert not {name for name in let_in if name.strip("./") in {"", "*", "**"} or name.startswith(".env")}
    listed = subprocess.run(["git", "ls-files", *let_in], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    suspicious = [
        name for name in listed if re.search(r"(^|/)\.env|\.(pem|key|crt|p12)$|(^|/)(tokens?|passwords?)(\.txt)?$", name)
    ]
    assert suspicious == []


def test_git_ignores_files_with_secrets():
    for name in (".env", "tls.key", "credentials/token"):
        command = ["git", "check-ignore", "--quiet", "--no-index", name]
        ignored = subprocess.run(command, cwd=ROOT, check=False).returncode == 0
        assert ignored, f"{name} would be committed"


def test_the_example_of_the_settings_contains_no_secret():
    for line in (ROOT / ".env.example").read_text().splitlines():
        if re.match(r"# ZEROFLEET_\w*(TOKEN|TOKENS|PASSWORD)=", line):
            assert line.endswith("="), line
