"""`python -m zerofleet.evaluators.native`: compile the kernel of this installation."""

from __future__ import annotations

import sys

from zerofleet.evaluators.native.build import main

if __name__ == "__main__":
    sys.exit(main())
