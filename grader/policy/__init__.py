"""The policy: rules on what a submission may do, and the exceptions that one variant has.

Host code never meets data: what it asks of the device is a plan, which is held to the rules of
grader/plan/rules.py. Of Python nothing more is asked. CUDA C++ is read before it is compiled, since
what a header or an attribute does to the compiler is in no plan: see cuda/.
"""

from __future__ import annotations

from grader.policy import cuda
from grader.policy.findings import RULES, Rules, Violation

__all__ = ["RULES", "Rules", "Violation", "cuda"]
