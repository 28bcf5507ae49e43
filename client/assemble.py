"""The package `zerofleet_client`: its own modules, and those that it shares with the product.

Errors, values and stubs are the product's files. In the package they import one another as `zerofleet_client.…` in place of
`zerofleet.…`, so that it needs no module of the product and shares none with an installed one. Stubs register their messages
in a descriptor pool of the package: two releases of a `.proto` file in one pool would be refused.

    $ python client/assemble.py build/client      # for type checkers: build/client/zerofleet_client
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

__all__ = ["assemble"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PACKAGE = "zerofleet_client"
PRODUCT = "zerofleet"
SHARED = (
    "errors.py",
    "contracts/__init__.py",
    "contracts/champions.py",
    "contracts/messages.py",
    "contracts/opinions.py",
    "contracts/promotions.py",
    "rpc/__init__.py",
    "rpc/addresses.py",
    "rpc/backoff.py",
    "rpc/channel_options.py",
    "rpc/failures.py",
    "contracts/wire/__init__.py",
)
STUBS = "contracts/wire/*_pb2*.py*"
PROTOS = "proto"

_IMPORT = re.compile(rf"^(\s*(?:from|import) ){PRODUCT}(?=\.)", re.MULTILINE)
_DEFAULT_POOL = "from google.protobuf import descriptor_pool as _descriptor_pool\n"
_OWN_POOL = f"from {PACKAGE}.descriptors import POOL as _POOL\n"


def assemble(folder: Path) -> Path:
    """Write the package into a folder and return its path; raises `FileNotFoundError` for a missing source."""
    package = folder / PACKAGE
    shutil.copytree(HERE / PACKAGE, package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    product = ROOT / PRODUCT
    stubs = sorted(path for path in product.glob(STUBS) if path.suffix in {".py", ".pyi"})
    if not stubs:
        raise FileNotFoundError(f"there are no stubs {product / STUBS}; make proto generates them")
    for source in [*(product / name for name in SHARED), *stubs]:
        _write(package / source.relative_to(product), _renamed(source.read_text()))
    for source in sorted((ROOT / PROTOS).rglob("*.proto")):
        _write(package / source.relative_to(ROOT), source.read_text())
    return package


def _renamed(text: str) -> str:
    """Return a module of the product as a module of the package."""
    text = _IMPORT.sub(rf"\1{PACKAGE}", text)
    return text.replace(_DEFAULT_POOL, _OWN_POOL).replace("_descriptor_pool.Default()", "_POOL")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
