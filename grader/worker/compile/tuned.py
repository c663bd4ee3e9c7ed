"""Names for configurations of tuned kernels, the same in planners and in the grader."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """A name for a value that JSON can hold.

    A specialisation is named with its attributes: the alignment of arguments decides whether loads
    can be made ahead of time, and so how much shared memory they take.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]
