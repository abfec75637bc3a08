"""guide_blocks and the hosts of tests/clusters are put where tests can import them."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [folder for folder in (str(HERE), str(HERE.parent / "clusters")) if folder not in sys.path]
