"""Measurements, each as a ratio to a peer or a limit measured in the same run."""

import sys
from pathlib import Path

# The programs under tools/ go by their own names here, as they do in the tests.
sys.path.append(str(Path(__file__).parents[1] / "tools"))
