"""One authority a session, and another that nobody trusts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tls_peers import Certificates, make_certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def others(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return certificates of the same names from another authority."""
    return make_certificates(tmp_path_factory.mktemp("others"))
