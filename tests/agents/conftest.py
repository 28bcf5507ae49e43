"""The modules that tests of agents share stand beside this file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
