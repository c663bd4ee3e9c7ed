"""Names for configurations of tuned kernels, the same in planners and in the grader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def digest(value: Any) -> str:
    """A name for a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


def key_of(described: Mapping[str, Any]) -> str:
    """A digest of a whole specialisation.

    It includes attributes: the alignment of arguments decides whether loads can be made ahead of
    time, and so how much shared memory they take.
    """
    return digest(described)
