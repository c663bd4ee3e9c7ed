"""The policy: rules on a submission's code, and the exceptions of one variant.

Host code never meets data: its requests to the device are a plan, under the rules of
grader/plan/rules.py. Python has no other rules. CUDA C++ is also read before it is compiled, since
a plan doesn't show the effect of a header or an attribute on the compiler: see cuda/.
"""

from __future__ import annotations

from grader.policy import cuda
from grader.policy.findings import RULES, Rules, Violation

__all__ = ["RULES", "Rules", "Violation", "cuda"]
