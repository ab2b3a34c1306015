"""The Python that runs these tests, with interlock: for programs in layers, from which a clone below HOME is hidden."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import interlock

PLACES = tuple(dict.fromkeys((Path(sys.prefix), Path(sys.base_prefix), Path(interlock.__file__).parents[1])))
SHOWN = {"INTERLOCK_SANDBOX_HOME": json.dumps([str(place) for place in PLACES])}
"""The setting that shows it, as a variable."""
