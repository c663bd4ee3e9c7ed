"""Names for configurations of tuned kernels, the same in planners and in the grader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def key_of(described: Mapping[str, Any]) -> str:
    """A digest of a specialisation's constants, options and pointer types.

    What Triton knows of numbers and addresses (that they are 1, or aligned) is left out: it decides
    nothing about whether a GPU has what the kernel needs.
    """
    signature, constants = described["signature"], described["constants"]
    ones = {name for name, value in constants.items() if type(value) is int and value == 1}
    key = (
        [described[name] for name in ("function", "hash", "options")],
        {name: value for name, value in constants.items() if name not in ones},
        {name: kind for name, kind in signature.items() if str(kind).startswith("*")},
    )
    text = json.dumps(key, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
