"""What an expression may be, as far as reading tells: a set of atoms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Path:
    """Something that belongs to a library or to Python: `torch.empty`, `math`, `builtins.len`."""

    name: str


@dataclass(frozen=True)
class Tensor:
    """A torch tensor. `origin`: `fresh` (allocated here, in order), `whole` or `part` (a slice)."""

    origin: str


@dataclass(frozen=True)
class Method:
    """A bound tensor method, not called yet."""

    name: str
    origin: str


@dataclass(frozen=True)
class Code:
    """A function of the file, by the number of its scope.

    functools.partial leaves out its first `skip` parameters and those `given` by keyword; `cached`
    is lru_cache around it.
    """

    scope: int
    skip: int = 0
    given: frozenset[str] = frozenset()
    cached: bool = False


@dataclass(frozen=True)
class Kernel:
    """A function of the file under triton.jit; `launcher` once it has its grid."""

    scope: int
    launcher: bool = False


@dataclass(frozen=True)
class Class:
    """A class of the file."""

    scope: int


@dataclass(frozen=True)
class Object:
    """An instance of a class of the file."""

    scope: int


@dataclass(frozen=True)
class Box:
    """A container, or an iterator, of what `items` may be."""

    items: frozenset[Atom]


@dataclass(frozen=True)
class Plain:
    """Known to be none of the above: a number, a text, a shape, a dtype. Or not known at all."""

    known: bool


Atom = Path | Tensor | Method | Code | Kernel | Class | Object | Box | Plain
Values = frozenset[Atom]

NOTHING: Values = frozenset()
OTHER: Values = frozenset({Plain(True)})
UNKNOWN: Values = frozenset({Plain(False)})
_DEEPEST = 2  # containers in containers that are told apart


def tensor(origin: str) -> Values:
    """A tensor of one origin."""
    return frozenset({Tensor(origin)})


def union(several: Iterable[Values]) -> Values:
    """What any of `several` may be."""
    return NOTHING.union(*several)


def box(items: Values) -> Values:
    """A container of `items`; what lies too deep in it counts as lying less deep."""
    return frozenset({Box(_flattened(items, _DEEPEST))})


def _flattened(items: Values, depth: int) -> Values:
    found: set[Atom] = set()
    for atom in items:
        if not isinstance(atom, Box):
            found.add(atom)
        elif depth:
            found.add(Box(_flattened(atom.items, depth - 1)))
        else:
            found |= deep(atom.items)
    return frozenset(found)


def deep(values: Values) -> Values:
    """`values`, and everything in their containers."""
    return frozenset(_deep(values))


def _deep(values: Values) -> Iterator[Atom]:
    for atom in values:
        yield atom
        if isinstance(atom, Box):
            yield from _deep(atom.items)


def has_tensor(values: Values) -> bool:
    """Whether a tensor is among `values` or in a container of them."""
    return any(isinstance(atom, Tensor) for atom in _deep(values))


def tensors(values: Values) -> list[Tensor]:
    """The tensors among `values` themselves."""
    return [atom for atom in values if isinstance(atom, Tensor)]


def elements(values: Values) -> Values:
    """What comes out when one of `values` is iterated over or subscripted."""
    found: set[Atom] = set()
    for atom in values:
        if isinstance(atom, Box):
            found |= atom.items
        elif isinstance(atom, Tensor):
            found.add(Tensor("part"))
        elif isinstance(atom, Plain):
            found.add(atom)
        elif not isinstance(atom, Path):
            found.add(Plain(False))
    return frozenset(found) or OTHER


def callables(values: Values) -> Values:
    """The functions, kernels and classes of the file among `values`, however deep."""
    return frozenset(a for a in _deep(values) if isinstance(a, Code | Kernel | Class | Object))
