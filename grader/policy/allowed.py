"""What a submission may name: modules, functions of torch and Triton, tensor methods, builtins.

Everything is a list of what may be used. What is refused follows: the rest. So a name that a later
torch, triton or Python adds is refused until it is listed here.
"""

from __future__ import annotations

import builtins
import collections
import collections.abc
import functools
import importlib
import importlib.util
import math
import typing

import torch

MODULES: dict[str, frozenset[str]] = {
    "math": frozenset(name for name in dir(math) if not name.startswith("_")),
    # get_type_hints and ForwardRef evaluate text.
    "typing": frozenset(typing.__all__) - {"get_type_hints", "ForwardRef", "evaluate_forward_ref"},
    "dataclasses": frozenset(
        {"dataclass", "field", "replace", "fields", "asdict", "astuple", "KW_ONLY"}
    ),
    "functools": frozenset({"partial", "lru_cache", "cache", "wraps", "reduce", "cached_property"}),
    # Not accumulate and starmap: both call what they are given on what they are given.
    "itertools": frozenset(
        {"chain", "count", "cycle", "islice", "pairwise", "permutations", "combinations", "product"}
        | {"repeat", "takewhile", "dropwhile", "zip_longest"}
    ),
    "enum": frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "auto", "unique"}),
    "collections": frozenset(collections.__all__) - {"UserDict", "UserList", "UserString"}
    | {"abc"},
    "collections.abc": frozenset(collections.abc.__all__),
    "abc": frozenset({"ABC", "abstractmethod"}),
    "contextlib": frozenset({"contextmanager", "nullcontext", "suppress"}),
    "warnings": frozenset({"warn"}),
    "__future__": frozenset({"annotations"}),
}

# --- torch -------------------------------------------------------------------------------------

DTYPES = frozenset(name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype))
ALLOCATIONS = frozenset(
    {"empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like"}
    | {"arange", "tensor", "empty_strided"}
)
# Functions that may be given a tensor: they look at it, or make another like it.
LOOKING = frozenset(
    {"empty_like", "zeros_like", "ones_like", "full_like", "is_tensor", "is_floating_point"}
    | {"is_complex", "numel"}
)
VIEWING = frozenset(
    {"unsqueeze", "squeeze", "flatten", "reshape", "narrow", "chunk", "split", "unbind"}
)
TORCH = (
    DTYPES
    | ALLOCATIONS
    | LOOKING
    | VIEWING
    | {"Tensor", "device", "dtype", "Size", "layout", "memory_format", "finfo", "iinfo", "strided"}
    | {"contiguous_format", "preserve_format", "get_default_dtype", "no_grad", "inference_mode"}
    | {"broadcast_shapes", "result_type", "promote_types", "__version__"}
    | {"cuda", "version", "version.cuda", "version.hip", "cuda.is_available", "cuda.current_device"}
    | {"cuda.device_count", "cuda.get_device_properties", "cuda.get_device_capability"}
    | {
        "cuda.get_device_name",
        "cuda.device",
        "cuda.device_of",
        "cuda.synchronize",
        "cuda.OutOfMemoryError",
    }
)
# Behind "*" in Rules.torch: what computes, not what loads, compiles or reaches into torch.
_COMPUTING_MODULES = frozenset({"nn", "nn.functional", "linalg", "special", "fft", "cuda"})
_NOT_COMPUTING = frozenset(
    {"load", "save", "compile", "classes", "ops", "jit", "utils", "hub", "library", "package"}
    | {"export", "fx", "multiprocessing", "distributed", "serialization", "storage", "overrides"}
    | {"import_ir_module", "import_ir_module_from_buffer", "from_file", "frombuffer", "from_dlpack"}
    | {"vmap", "cond", "while_loop", "sys", "os", "builtins", "importlib", "inspect", "threading"}
)


@functools.lru_cache(maxsize=1024)
def is_slip(module: str, name: str) -> bool:
    """Whether `module` has nothing called `name`: a slip of the pen. Running it says more."""
    if "." in name or hasattr(importlib.import_module(module), name):
        return False
    try:
        return importlib.util.find_spec(f"{module}.{name}") is None  # a part not loaded yet
    except ModuleNotFoundError:  # the module has no parts
        return True


def torch_name(name: str, extra: frozenset[str]) -> bool:
    """Whether `torch.NAME` may be used, where `extra` is allowed beside the default."""
    if name in TORCH or name in extra or f"torch.{name}" in extra:
        return True
    if is_slip("torch", name):
        return True
    *modules, last = name.split(".")
    if name in _COMPUTING_MODULES and any(
        one == "*" or one.startswith(f"{name}.") for one in extra
    ):
        return True
    if modules == ["Tensor"]:
        return last in extra or ("*" in extra and last in COMPUTING_METHODS)
    if "*" not in extra or name.startswith("_") or "._" in name:
        return False
    if modules:
        return ".".join(modules) in _COMPUTING_MODULES - {"cuda"}
    return last not in _NOT_COMPUTING and callable(getattr(torch, last, None))


# --- tensors -----------------------------------------------------------------------------------

FACTS = frozenset(
    {"shape", "size", "stride", "numel", "nelement", "dim", "ndim", "ndimension", "dtype", "device"}
    | {"element_size", "itemsize", "nbytes", "is_contiguous", "storage_offset", "layout", "is_cuda"}
    | {"is_cpu", "is_meta", "is_floating_point", "is_complex", "is_signed", "get_device"}
    | {"requires_grad", "is_leaf", "is_sparse"}
)
# These keep the order of the elements, and copy where a view can't: never for a part.
COPYING = frozenset({"contiguous", "reshape", "reshape_as", "flatten", "ravel", "clone"})
VIEWS = COPYING | {"view", "view_as", "unsqueeze", "squeeze", "unflatten", "detach"}
PARTS = frozenset(
    {"narrow", "select", "expand", "expand_as", "broadcast_to", "unbind", "chunk", "split"}
    | {"tensor_split"}
)
NEW = frozenset({"new_empty", "new_zeros", "new_ones", "new_full"})
FILLING = frozenset({"zero_", "fill_"})
METHODS = FACTS | VIEWS | PARTS | NEW | FILLING
REPLAY_METHODS = frozenset({"data_ptr", "untyped_storage", "storage", "const_data_ptr"})
ORDER_METHODS = frozenset(
    {"t", "T", "H", "mT", "mH", "transpose", "permute", "swapaxes", "swapdims", "movedim"}
    | {"moveaxis", "adjoint", "as_strided"}
)
_METHODS_OF_OTHERS = frozenset().union(
    *map(dir, (str, bytes, list, dict, set, tuple, int, float, slice, range))
)
_FIELDS_OF_OTHERS = frozenset({"name", "names", "mode", "grad", "type", "size", "index", "indices"})
COMPUTING_METHODS = frozenset(
    name for name in dir(torch.Tensor) if not name.startswith("_") and name not in METHODS
)
# Refused whatever they are asked of, unless it is known to be something else than a tensor.
TELLING_METHODS = COMPUTING_METHODS - _METHODS_OF_OTHERS - _FIELDS_OF_OTHERS

# Attributes through which frames, code and the Python function behind a kernel are reached.
INTERNALS = frozenset(
    {"fn", "base_fn", "gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "cr_origin"}
    | {"ag_frame", "ag_code", "f_back", "f_globals", "f_locals", "f_builtins", "f_code", "f_trace"}
    | {"tb_frame", "tb_next", "co_code", "co_consts", "func_globals", "func_code", "mro"}
    | {"with_traceback", "format_map", "send", "asend", "throw", "athrow"}
)
KERNEL_ATTRIBUTES = frozenset({"best_config", "configs", "warmup", "arg_names"})

# --- triton ------------------------------------------------------------------------------------

_LIBRARY = "triton.language"
TRITON = frozenset(
    {
        "jit",
        "autotune",
        "heuristics",
        "Config",
        "cdiv",
        "next_power_of_2",
        "language",
        "__version__",
    }
    | {"set_allocator", "constexpr_function", "OutOfResources", "CompilationError"}
    | {"runtime", "runtime.driver", "runtime.driver.active", "runtime.driver.active.utils"}
    | {"runtime.driver.active.utils.get_device_properties"}
    | {"runtime.driver.active.get_current_device", "runtime.driver.active.get_current_target"}
    | {"runtime.driver.active.get_active_torch_device"}
    | {"tools", "tools.tensor_descriptor", "tools.tensor_descriptor.TensorDescriptor"}
    | {"tools.tensor_descriptor.TensorDescriptor.from_tensor"}
    | {"experimental", "experimental.gluon", "experimental.gluon.jit"}
    | {"experimental.gluon.nvidia", "experimental.gluon.nvidia.hopper"}
    | {"experimental.gluon.nvidia.hopper.TensorDescriptor"}
    | {"experimental.gluon.nvidia.hopper.TensorDescriptor.from_tensor"}
)
JIT = frozenset({"triton.jit", "triton.experimental.gluon.jit"})
DESCRIBING = frozenset(
    f"triton.{name}{method}"
    for name in (
        "tools.tensor_descriptor.TensorDescriptor",
        "experimental.gluon.nvidia.hopper.TensorDescriptor",
    )
    for method in ("", ".from_tensor")
)
_LANGUAGE_MODULES = frozenset(
    {"", "math", "extra", "extra.libdevice", "extra.cuda", "extra.cuda.libdevice", "target_info"}
)


@functools.lru_cache(maxsize=64)
def _language_names(module: str) -> frozenset[str]:
    loaded = importlib.import_module(f"{_LIBRARY}.{module}" if module else _LIBRARY)
    listed = getattr(loaded, "__all__", None)
    module_type = type(builtins)
    return frozenset(
        name
        for name in (listed or dir(loaded))
        if not name.startswith("_") and not isinstance(getattr(loaded, name, None), module_type)
    )


def language_name(name: str) -> bool:
    """Whether `triton.language.NAME` is part of the language; "" is the language itself."""
    if name in _LANGUAGE_MODULES:
        return True
    module, _, last = name.rpartition(".")
    if module in _LANGUAGE_MODULES:
        whole = f"{_LIBRARY}.{module}" if module else _LIBRARY
        return last in _language_names(module) or is_slip(whole, last)
    # One further: tl.float32.primitive_bitwidth, tl.PropagateNan.ALL.
    first, _, rest = name.partition(".")
    known = first in {"constexpr", "dtype", "PropagateNan", "tensor"} or first in _language_dtypes()
    return known and "." not in rest and not rest.startswith("_") and rest not in INTERNALS


@functools.lru_cache(maxsize=1)
def _language_dtypes() -> frozenset[str]:
    language = importlib.import_module(_LIBRARY)
    return frozenset(n for n in dir(language) if isinstance(getattr(language, n), language.dtype))


def triton_name(name: str) -> bool:
    """Whether `triton.NAME` may be used."""
    if name == "language" or name.startswith("language."):
        return language_name(name[9:])
    gluon = "experimental.gluon.language"
    if name == gluon or name.startswith(f"{gluon}."):
        parts = name[len(gluon) :].split(".")[1:]
        hidden = {"builtins", "core", "semantic", "sys", "os", "inspect"} | INTERNALS
        return not any(part.startswith("_") or part in hidden for part in parts)
    return name in TRITON or is_slip("triton", name)


# --- Python ------------------------------------------------------------------------------------

_REFUSED_BUILTINS = frozenset(
    {"exec", "eval", "compile", "__import__", "getattr", "setattr", "delattr", "vars", "globals"}
    | {"locals", "dir", "open", "input", "breakpoint", "memoryview", "type", "format"}
    | {"exit", "quit", "help", "copyright", "credits", "license", "__build_class__", "__loader__"}
    | {"__spec__", "id"}
)
BUILTINS = frozenset(dir(builtins)) - _REFUSED_BUILTINS
# Given a tensor, these read none of its values.
BUILTINS_FOR_TENSORS = frozenset(
    {"print", "len", "isinstance", "issubclass", "tuple", "list", "dict", "zip", "enumerate"}
    | {"iter", "next", "callable", "hasattr", "filter", "map", "super"}
)
LIBRARY_FOR_TENSORS = frozenset(
    {"functools.partial", "functools.reduce", "typing.cast", "itertools.chain", "itertools.product"}
    | {"itertools.zip_longest", "itertools.repeat", "itertools.cycle", "itertools.islice"}
    | {"collections.deque", "dataclasses.replace", "contextlib.nullcontext"}
)
ADDING = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "appendleft"})

DUNDER_NAMES = frozenset({"__name__", "__doc__"})
DUNDER_NAMES_SET = frozenset({"__all__", "__author__", "__version__", "__doc__", "__slots__"})
DUNDER_ATTRIBUTES = frozenset({"__name__", "__qualname__", "__doc__", "__init__", "__version__"})
# Public by documentation, whatever they are called.
UNDERSCORED = frozenset({"_replace", "_asdict", "_fields", "_make"})
SETTABLE = frozenset({"block_shape"})  # of tensor descriptors, by a hook of autotune
DUNDER_METHODS = frozenset(
    {"__init__", "__post_init__", "__call__", "__repr__", "__str__", "__len__", "__iter__"}
    | {"__next__", "__getitem__", "__contains__", "__enter__", "__exit__", "__eq__", "__hash__"}
    | {"__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__new__"}
)

# The tensor methods that operators stand for.
OPERATORS = {
    "Add": ("+", "add"),
    "Sub": ("-", "sub"),
    "Mult": ("*", "mul"),
    "MatMult": ("@", "matmul"),
    "Div": ("/", "div"),
    "FloorDiv": ("//", "floor_divide"),
    "Mod": ("%", "remainder"),
    "Pow": ("**", "pow"),
    "LShift": ("<<", "bitwise_left_shift"),
    "RShift": (">>", "bitwise_right_shift"),
    "BitOr": ("|", "bitwise_or"),
    "BitXor": ("^", "bitwise_xor"),
    "BitAnd": ("&", "bitwise_and"),
    "USub": ("-", "neg"),
    "UAdd": ("+", "positive"),
    "Invert": ("~", "bitwise_not"),
    "Eq": ("==", "eq"),
    "NotEq": ("!=", "ne"),
    "Lt": ("<", "lt"),
    "LtE": ("<=", "le"),
    "Gt": (">", "gt"),
    "GtE": (">=", "ge"),
    "In": ("in", "eq"),
    "NotIn": ("not in", "eq"),
    "Not": ("not", "bool"),
}
