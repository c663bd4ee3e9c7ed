"""What the rules are called, what one variant may do beyond them, and what a breach looks like."""

from __future__ import annotations

from dataclasses import dataclass

RULES: dict[str, str] = {
    "import": "Only modules that a kernel needs are imported, and of them only their public names.",
    "torch": (
        "Torch is for allocating, shapes, strides and views; "
        "what the exercise asks for is computed in kernels."
    ),
    "triton": "Of Triton, the language and what launches, tunes and describes kernels may be used.",
    "kernel": "A kernel is launched on a grid, never called as a Python function.",
    "dynamic": (
        "No code from text, no lookup by computed name, no files and no input: "
        "what a file does can be read in it."
    ),
    "dunder": "Attributes that begin with an underscore, and the interpreter's own, stay alone.",
    "monkeypatch": "Attributes are set on the submission's own objects only.",
    "tensor_subclass": "Classes don't derive from torch's or Triton's, and don't steer Python.",
    "replay": "Nothing depends on which tensor came: not on its address, identity or hash.",
    "unreadable": "The file is UTF-8 and simple enough to be read.",
}


@dataclass(frozen=True)
class Rules:
    """What one variant may do beyond the default.

    `imports` are names of further modules, whole (`numpy` allows `numpy.linalg` too). `torch` are
    functions and tensor methods: `matmul` allows `torch.matmul`, `x.matmul` and `x @ y`; a dotted
    name is that of a function behind `torch.`, `nn.functional.silu`; `*` allows all of torch's
    computing. `lifted` are names of `RULES` that are off.
    """

    imports: frozenset[str] = frozenset()
    torch: frozenset[str] = frozenset()
    lifted: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Violation:
    """One breach: `message` says what was found, `instead` what to do.

    `line` and `column` count from 1, the column in characters.
    """

    rule: str
    line: int
    column: int
    message: str
    instead: str


_INSTEAD = {
    "torch": (
        "Compute it in your own kernel: torch is for allocating, shapes, strides and views here."
    ),
    "triton": "Use triton.language, triton.jit, triton.autotune, triton.cdiv and the like.",
    "kernel": "Launch it: kernel[grid](arguments).",
    "dynamic": "Write out what is meant: the name, the attribute or the call itself.",
    "dunder": "Use the public name; kernels need none of the interpreter's own.",
    "monkeypatch": "Use a variable, or an object of a class of your own.",
    "tensor_subclass": "Use plain functions and plain classes.",
    "replay": (
        "Compute every call anew. To remember a configuration, use sizes and dtypes as the key."
    ),
    "unreadable": "Split it into smaller expressions and functions, saved as UTF-8.",
}
_INSTEAD_OF_MODULES = {
    "numpy": "Compute in your kernel; math has what a launch needs. ",
    "os": "Kernels need nothing of the system; the grader sets Triton's environment itself. ",
    "time": "Timing belongs in your own benchmark. ",
    "operator": "Compute in your kernel. ",
}


def instead_of(rule: str) -> str:
    """What to do in place of a breach of `rule`."""
    return _INSTEAD[rule]


def instead_of_import(module: str) -> str:
    """What to do without `module`."""
    own = _INSTEAD_OF_MODULES.get(module.split(".")[0], "")
    return (
        f"{own}Allowed are torch, triton, math, typing and a few of the standard library. "
        'What only your own tests need belongs behind if __name__ == "__main__".'
    )
