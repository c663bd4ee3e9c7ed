"""The rules on submission source: the student's own kernel does the work.

Those on CUDA source are in cuda/; what follows is about Python.

`check` reads a Python file's text before anything of it runs; it never imports or executes it. It
follows values from the file's top level and from the entry through assignments, calls, closures,
containers and attributes, as far as it can tell what they are: a tensor, a kernel, a module of
torch's, a function of the file. Functions that can't be reached from there are another variant's,
or the student's own tests; they never run in grading and nothing is said about them. Nor is
anything said about the block behind `if __name__ == "__main__"`, comments and texts.

    findings.py     Rules, Violation, RULES
    allowed.py      what may be named: modules, functions, tensor methods, builtins
    values.py       what an expression may be, as far as reading tells
    scopes.py       which names belong to which function
    state.py        what a reading has found out so far
    reader.py       statements, functions, the fixed point
    names.py        names, attributes and parts of libraries
    expressions.py  operators, containers and assignment targets
    calls.py        calls of everything that can be called

A reader can't know everything: values it lost track of may be tensors. What computes on them by a
method's name is refused all the same; what does so by an operator is left to the observation of a
run. The sandbox, and the boundary between the two processes, don't depend on these rules.
"""

from __future__ import annotations

from grader.policy import cuda
from grader.policy.check import check
from grader.policy.findings import RULES, Rules, Violation

__all__ = ["RULES", "Rules", "Violation", "check", "cuda"]
