"""Names for configurations of tuned kernels, the same in planners and in the grader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def key_of(described: Mapping[str, Any]) -> str:
    """A digest of a whole specialisation.

    It includes attributes: the alignment of arguments decides whether loads can be made ahead of
    time, and so how much shared memory they take.
    """
    text = json.dumps(described, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
