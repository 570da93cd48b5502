"""Makes the run factory importable from the tests of analysis."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
