"""The modules that tests of planning share stand beside this file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
