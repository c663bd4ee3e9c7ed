"""What ran: launches bound and specialised as Triton's own launcher does it, without tensors.

Types, constexprs, arguments that are 1 or divisible by 16 and launch options together say which
code the compiler would make; launches that agree in them are one.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from triton._utils import find_paths_if, get_iterable_path
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime import jit

DEFAULT_CAPABILITY = 90  # Hopper
WARP = 32  # threads


class NotModelled(Exception):
    """An operation that can't be given the GPU's meaning here: the verdict needs a GPU."""


@dataclass(frozen=True)
class Bound:
    """Arguments of one launch as Triton's launcher sees them."""

    values: dict[str, Any]  # parameter name -> value, defaults applied
    specialisation: list[tuple[str, Any]]  # per parameter: type name, value-dependent attribute
    options: dict[str, Any]  # num_warps and the like


@dataclass(frozen=True)
class Launch:
    """One specialisation of a kernel that ran; holds no tensor."""

    kernel: str
    file: str
    key: str  # equal for launches that compile to the same code
    tag: int  # the request during which it ran first
    options: dict[str, Any] = field(default_factory=dict, compare=False)
    problem: str = ""  # why it can't be compiled, "" where it can
    # What the compiler needs; live objects, so a launch crosses a fork but not a pipe.
    function: Any = field(default=None, compare=False, repr=False)
    signature: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    constants: dict[tuple, Any] = field(default_factory=dict, compare=False, repr=False)
    attributes: dict[tuple, str] = field(default_factory=dict, compare=False, repr=False)
    # The configurations an autotuner chooses from, this one included; shared by all of them.
    group: list[Launch] = field(default_factory=list, compare=False, repr=False)


class Launches:
    """The specialisations that ran since they were last taken."""

    def __init__(self) -> None:
        self.tag = 0
        self._seen: dict[Any, Launch] = {}
        self._group: list[Launch] | None = None

    def take(self) -> list[Launch]:
        """Each specialisation once, in the order of first appearance; the record starts anew."""
        taken = list(self._seen.values())
        self._seen.clear()
        return taken

    def add(self, function: jit.JITFunction, bound: Bound) -> None:
        """Note a launch. What can't be hashed is compared by its text."""
        options = tuple(bound.options.items())
        key: Any = (id(function), tuple(bound.specialisation), options)
        try:
            launch = self._seen.get(key)
        except Exception:
            key = str(key)
            launch = self._seen.get(key)
        if launch is None:
            group = [] if self._group is None else self._group
            try:
                launch = _describe(function, bound, self.tag, group)
            except Exception as error:  # a launch that runs must not fail for want of a record
                launch = Launch(
                    kernel=function.__name__,
                    file=function.source_file,
                    key=f"unrecorded {key}",
                    tag=self.tag,
                    function=function,
                    problem=f"its arguments could not be recorded: {error}",
                )
            self._seen[key] = launch
            group.append(launch)

    @contextlib.contextmanager
    def alternatives(self) -> Iterator[list[Launch]]:
        """Launches added inside are configurations of which an autotuner needs one to compile."""
        outer, self._group = self._group, []
        try:
            yield self._group
        finally:
            self._group = outer


def representative(launches: list[Launch], settled: Iterable[list[Launch]] = ()) -> list[Launch]:
    """Some of the launches, in their order, that have among them all that any of them has.

    Each constant, each type, each value-dependent attribute of each argument and each set of
    options occurs, for each combination of tensors' types; but for what launches of `settled` had.
    Their combinations can be hundreds, a second each to compile, and what a compiler refuses it
    refuses for one of them. The next one taken always adds the most. Of sizes of blocks, the
    smallest and the largest are enough.
    """
    seen = {trait for each in settled for launch in each for trait in _traits(launch)}
    left = [(launch, _traits(launch)) for launch in launches]
    seen |= _between(seen.union(*(traits for _, traits in left)))
    taken: set[int] = set()
    while left:
        launch, traits = max(left, key=lambda pair: len(pair[1] - seen))
        if traits <= seen:
            break
        seen |= traits
        taken.add(id(launch))
        left.remove((launch, traits))
    return [launch for launch in launches if id(launch) in taken]


def _between(traits: Iterable[Any]) -> set[Any]:
    """Those of a block's size, where there is a smaller and a larger one of the same constant.

    A power of two from 16 up is taken for a block's size: one below may choose what is computed.
    """
    sizes: dict[Any, list[int]] = {}
    for *argument, value in (trait for trait in traits if isinstance(trait, tuple)):
        if _is_block_size(value):
            sizes.setdefault(tuple(argument), []).append(int(value))
    return {
        (*argument, str(size))
        for argument, found in sizes.items()
        for size in found
        if min(found) < size < max(found)
    }


def _is_block_size(text: str) -> bool:
    return text.isdecimal() and int(text) >= 16 and int(text).bit_count() == 1


def _traits(launch: Launch) -> frozenset[Any]:
    """What the compiler is told of each argument, and the options, of one kernel."""
    if launch.problem:
        return frozenset([launch.key])
    # A block that fits in shared memory in float16 may not in float32.
    tensors = tuple(str(kind) for kind in launch.signature.values() if str(kind).startswith("*"))
    traits = {("options", str(sorted(launch.options.items(), key=str)))}
    for told in (launch.signature, launch.constants, launch.attributes):
        traits |= {(str(argument), str(value)) for argument, value in told.items()}
    return frozenset((id(launch.function), tensors, *trait) for trait in traits)


def _describe(function: jit.JITFunction, bound: Bound, tag: int, group: list[Launch]) -> Launch:
    types = [kind for kind, _ in bound.specialisation]
    constant_paths = find_paths_if(types, lambda _, kind: kind == "constexpr")
    values = list(bound.values.values())
    constants = {path: get_iterable_path(values, path) for path in constant_paths}
    attributes = ["" if kind == "constexpr" else value for kind, value in bound.specialisation]
    attribute_paths = find_paths_if(attributes, lambda _, value: isinstance(value, str))
    options = sorted(bound.options.items(), key=str)
    captured = [cell.cell_contents for cell in function.fn.__closure__ or ()]
    place = f"{function.source_file}:{function.source_line} {captured}"
    return Launch(
        kernel=function.__name__,
        file=function.source_file,
        key=f"{place} {bound.specialisation} {constants} {options}",
        tag=tag,
        options=dict(bound.options),
        function=function,
        signature=dict(zip(bound.values, types, strict=True)),
        constants=constants,
        attributes={path: get_iterable_path(attributes, path) for path in attribute_paths},
        group=group,
    )


@functools.lru_cache(maxsize=4)
def backend(capability: int) -> Any:
    """Triton's compiler for NVIDIA GPUs of a compute capability."""
    return make_backend(GPUTarget("cuda", capability, WARP))


@functools.lru_cache(maxsize=1)
def _option_names() -> frozenset[str]:
    return frozenset(backend(DEFAULT_CAPABILITY).parse_options({}).__dict__)


def prepare() -> None:
    """Do once, before workers are forked, what every one of them would do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of defaults that a later triton will change
        _option_names()


def bind(function: jit.JITFunction, args: tuple, kwargs: dict[str, Any]) -> Bound:
    """Bind the arguments of a launch as Triton's launcher would.

    Raises TypeError for a missing or surplus argument and KeyError for a keyword that is neither a
    parameter of the kernel nor a launch option: the errors a launch on a GPU raises.
    """
    name = function.__name__
    binder = function.__dict__.get("_warpgrade_binder")
    if binder is None:
        binder = function._warpgrade_binder = jit.create_function_from_signature(
            function.signature, function.params, backend(DEFAULT_CAPABILITY)
        )
    try:
        values, specialisation, surplus = binder(*args, **kwargs)
    except TypeError as error:
        raise TypeError(str(error).replace("dynamic_func()", f"{name}()")) from None
    for keyword in surplus:
        if keyword not in _option_names():
            parameters = ", ".join(function.arg_names)
            raise KeyError(
                f"{name} has no parameter {keyword} and no launch option is called that; "
                f"its parameters are {parameters}"
            )
    options = {key: kwargs[key] for key in kwargs if key in _option_names()}
    if function.debug and "debug" not in options:
        options["debug"] = True
    return Bound(values, specialisation, options)
