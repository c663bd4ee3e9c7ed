"""Recognises CUDA features in the source that the emulator lacks, with their places.

A partly modelled feature would be worse: what uses a refused one (isolation.py) counts as not
measured here. Device code then runs on a GPU; host code is recorded there too, so what the recorder
lacks is refused on both (`is_of_host_code`). Missing functions of the runtime API compile, and are
refused when they are called (include/warpgrade/device_api.h).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import ptx, tokens
from .lexer import Directive
from .tokens import Run, Source

_INCLUDE = Path(__file__).parent / "include"
# By the beginning of an include: the feature, and a pattern of the header's names. With a pattern
# the names are lacking where the code has them, and the include is left out; without one the header
# itself is.
_HEADERS = {
    "cublas.h": ("cuBLAS before its second version", r"cublas\w*|CUBLAS_\w*"),
    "cublasXt": ("cuBLASXt", r"cublasXt\w*"),
    "cudnn": ("cuDNN", r"cudnn\w*|CUDNN_\w*"),
    "cufft": ("cuFFT", r"cufft\w*|CUFFT_\w*"),
    "cusparse": ("cuSPARSE", r"cusparse\w*|CUSPARSE_\w*"),
    "cusolver": ("cuSOLVER", r"cusolver\w*|CUSOLVER_\w*"),
    "curand": ("cuRAND", r"curand\w*|CURAND_\w*"),
    "thrust/": ("Thrust", r"thrust|THRUST_\w*"),
    "cub/": ("CUB", r"cub|CUB_\w*"),
    "cutlass/": ("CUTLASS", r"cutlass|CUTLASS_\w*|cute"),
    "cute/": ("CuTe", r"cute|CUTE_\w*"),
    "cuda/": ("libcu++ (<cuda/...>)", r"cuda"),
    "nv/": ("libcu++ (<nv/...>)", ""),
    "crt/": ("CUDA's internal headers", ""),
    "cuda_fp6": ("6-bit floating-point types", r"__nv_fp6\w*|__nv_cvt_\w*"),
    "cuda_fp4": ("4-bit floating-point types", r"__nv_fp4\w*|__nv_cvt_\w*"),
    "cuda_awbarrier": ("asynchronous barriers", ""),
    "cudaTypedefs": ("the driver API", r"PFN_\w+|cu[A-Z]\w+"),
    "cuda_texture_types": ("textures", ""),
    "texture_": ("textures", ""),
    "surface_": ("surfaces", ""),
    "nvrtc": ("NVRTC", r"nvrtc\w*|NVRTC_\w*"),
    "nvml": ("NVML", r"nvml\w*|NVML_\w*"),
    "nccl": ("NCCL", r"nccl\w*|NCCL_\w*"),
    "nvtx": ("NVTX", r"nvtx\w*|NVTX_\w*"),
    "nvToolsExt": ("NVTX", r"nvtx\w*|NVTX_\w*"),
    "cuComplex": ("cuComplex", r"cu[CF]\w*|cuDouble\w*|make_cu\w*"),
    "cudaProfiler": ("the driver API", ""),
}
# Of libcu++ and of CUB these headers are here, with these names of namespaces cuda and cub.
_OUR_HEADERS = frozenset(
    str(each.relative_to(_INCLUDE))
    for folder in ("cuda", "cub")
    for each in (_INCLUDE / folder).rglob("*")
    if each.is_file()
)
_OUR_NAMES = re.compile(
    r"pipeline|make_pipeline|pipeline_(?:consumer_wait_prior|shared_state|role)|memcpy_async"
    r"|aligned_size_t|barrier"
    r"|ceil_div|round_up|round_down|maximum|minimum"
    r"|thread_scope\w*|atomic|atomic_ref|atomic_thread_fence|memory_order\w*|std"
)
_OUR_NAMES_OF_CUB = re.compile(
    r"(?:Block|Warp)Reduce|Block(?:Load|Store)|Block(?:Reduce|Load|Store)Algorithm"
    r"|BLOCK_(?:REDUCE|LOAD|STORE)_\w+|Sum|Max|Min|NullType|Uninitialized|RowMajorTid|LaneId"
)
# By a namespace, what its names that aren't here belong to.
_NAMESPACES = {
    "cuda": "libcu++ (namespace cuda)",
    "std": "libcu++ (namespace cuda)",
    "cub": "CUB's other parts (namespace cub)",
}
_NAMESPACE = re.compile(r"\bnamespace (?:\w+ :: )*(?:cuda|cub) (?:\{|::)")
# The names in warpgrade/standard_20.h.
_OF_STANDARD_20 = re.compile(
    r"bit_(?:cast|ceil|floor|width)|count[lr]_(?:one|zero)|has_single_bit|popcount|rot[lr]"
    r"|dynamic_extent|span"
)
# By a name in the code.
_NAMES = {
    **dict.fromkeys(ptx.WORDS, "this inline assembly (PTX)"),
    "block_tile_memory": "tiles of more than 32 threads (block_tile_memory)",
    "this_multi_grid": "synchronisation of several grids",
    "this_cluster": "thread block clusters",
    "cluster_group": "thread block clusters",
    "__cluster_dims__": "thread block clusters",
    "__managed__": "managed memory (__managed__)",
    "cudaTextureObject_t": "textures",
    "cudaSurfaceObject_t": "surfaces",
    "cudaArray_t": "CUDA arrays",
    "cudaGraph_t": "CUDA graphs",
    "cudaGraphExec_t": "CUDA graphs",
    "cudaStreamCaptureModeGlobal": "CUDA graphs",
    "CUtensorMap": "tensor maps (TMA)",
    "cuTensorMapEncodeTiled": "tensor maps (TMA)",
}
_PREFIXES = {
    "__nv_fp6": "6-bit floating-point types",
    "__nv_fp4": "4-bit floating-point types",
    "__builtin_ia32_": "instructions of x86 processors",
    "__builtin___": "g++'s functions that check their room",
}
# CUDA's names that the headers lack, and their features. They count only where g++ doesn't know
# them, so a family may be wide, but must not include a likely typo of an existing name.
_LACKING = {
    "8-bit floating-point types": r"__nv_fp8\w*|__nv_cvt_\w*",
    "packed integer arithmetic": r"__v(?:abs|add|sub|avg|max|min|cmp|set|neg|sad|hadd)\w*[24]",
    "DPX instructions": r"__vi(?:add|b)?(?:max|min)\w+",
    "thread block clusters": r"__cluster\w+|__threadfence_cluster|cluster\w*Dim\w*",
    "address space queries": r"__is(?:Global|Shared|Local|Constant|GridConstant|C\w+Shared)",
    "addresses for PTX": r"__cvta_\w+",
    "cooperative groups' operations with a destination": r"(?:in|ex)clusive_scan_update"
    r"|reduce_(?:store|update)_async",
    "named barriers": r"__barrier_sync\w*",
    "128-bit atomics": r"__u128Atomic\w+|__nv_atomic\w+",
    "asynchronous copies": r"__nv_memcpy_async\w+|__pipeline_\w+",
    "intrinsics of newer GPUs": r"__f(?:add|mul|fma)2_r\w|h2?tanh_approx"
    r"|make_u?(?:long|double)4_\d+a",
    "__fns, __uni_sync, __dp2a": r"__fns|__uni_sync|__dp2a_\w+|__pm[0-3]|__brkpt",
    "Bessel functions": r"cyl_bessel_i[01]f?",
    "norms of arrays": r"r?normf?",
    "surfaces and textures": r"(?:tex|surf)[1-3C]\w+"
    r"|cuda(?:Texture|Surface|ResourceDesc|ResView)\w*",
    "memory in three dimensions": r"cuda(?:Mem(?:cpy|set)|Malloc)3D(?!Array)\w*"
    r"|(?:make_)?cuda(?:Extent|PitchedPtr|Pos)",
    "CUDA arrays": r"cuda(?:Array|Mipmapped|Channel|CreateChannel)\w*"
    r"|cudaMemcpy\w*Array\w*|cuda(?:Malloc|Free)\w*Array",
    "CUDA graphs": r"cuda(?:Graph|StreamCapture|StreamBeginCapture|ConditionalNode|UserObject)\w*",
    "memory pools": r"cuda(?:MemPool|MemGetMemPool|DeviceSetMemPool|MallocFromPool)\w*",
    "managed memory": r"cudaMem(?:Attach|Advise|Location|Range|Prefetch|Discard)\w*",
    "launches with attributes": r"cudaLaunch(?:Attribute|Config|KernelEx|MemSync)\w*",
    "attributes of kernels": r"cudaFunc(?:GetName|GetParamInfo|tion_t)|cudaKernel\w*",
    "several devices": r"cuda\w*(?:Peer|P2P)\w*|cudaIpc\w+",
    "other libraries' memory": r"cuda(?:External|Import|Graphics|Signal|WaitExternal)\w*",
    "code loaded at run time": r"cuda(?:Library|Jit|GetDriverEntryPoint)\w*",
    "attributes of streams": r"cudaStream(?:Attr|CopyAttr|GetAttr|SetAttr)\w*"
    r"|cudaStreamGetId"
    r"|cudaAccessPolicy\w*|cudaAccessProperty\w*",
    "flags of devices": r"cudaSetDeviceFlags|cudaDeviceSchedule\w+"
    r"|cudaDevice[GS]et(?:SharedMem|Cache)Config|cudaSharedMem\w+|cudaChooseDevice|cudaInitDevice|cudaDevAttr\w+",
    "occupancy with flags": r"cudaOccupancy\w+(?:WithFlags|Clusters|ClusterSize|SMem\w*)",
    "CUB's other parts": r"(?:Block|Warp|Device)(?:Scan|Exchange|(?:Radix|Merge|Segmented)\w+"
    r"|Histogram|Discontinuity|AdjacentDifference|Select|Shuffle|RunLength\w+)|DeviceReduce"
    r"|WarpLoad|WarpStore|Thread(?:Reduce|Load|Store)|CacheModified\w+Iterator"
    r"|(?:Load|Store)(?:Direct|Warp)\w+",
    "cuBLAS": r"cublas\w+|CUBLAS\w+|CUDA_[RC]_\d\w+",
    "cuComplex": r"(?:make_)?cu(?:Float|Double)?Complex"
    r"|cuC(?:add|sub|mul|div|abs|real|imag|onj|fma)f?",
    "the driver API": r"cu(?:Init|Ctx|Device|Module|Launch|Mem|Stream|Event|Func|Get)\w+"
    r"|CU[a-z]\w+",
    "programmatic launches": r"cuda(?:GridDependency|TriggerProgrammatic)\w+",
}

# Of host code: the runtime that records it for a GPU lacks these, too.
_OF_HOST_CODE = re.compile(
    r"cuda[A-Z]\w+|CUDA (?:graphs|arrays)|(?:surfaces and )?textures|surfaces|tensor maps .*"
    r"|memory (?:in three dimensions|pools)|(?:managed|other libraries') memory"
    r"|managed memory \(__managed__\)|code loaded at run time|several devices|the driver API"
    r"|attributes of (?:kernels|streams)|cu(?:BLAS|DNN|FFT|SOLVER|SPARSE)\b.*|N(?:VRTC|VML|CCL)"
)


@dataclass(frozen=True)
class Unsupported:
    """A feature that the emulator lacks, at an offset of the source."""

    feature: str
    offset: int


def find(source: Source) -> list[Unsupported]:
    """The unsupported features of a source, in order."""
    features = [*_in_includes(source), *_in_launches(source)]
    macros = {each.macro for each in source.directives}
    own = _names_of_its_own(source.code)
    for run in source.runs():
        features += [*_in_names(run, macros, own)]
    for each in source.directives:
        if each.macro in ptx.WORDS:  # what stands there isn't assembly
            features.append(Unsupported(_NAMES["asm"], each.at.start))
    features += _in_questions(source)
    return sorted(features, key=lambda one: one.offset)


def is_of_host_code(feature: str) -> bool:
    """Whether a GPU doesn't help: `feature`, or a function of the runtime API, is host code's."""
    return bool(_OF_HOST_CODE.match(feature))


def known_includes(source: Source) -> list[Directive]:
    """The includes of unsupported headers of which the names are known: the names count instead."""
    return [each for each in source.directives if _lacking_header(each)[1]]


def _lacking_header(directive: Directive) -> tuple[str, str]:
    """The row of _HEADERS for an include; empty texts for any other line."""
    name = directive.header[1:-1] if directive.name == "include" else ""
    if name in _OUR_HEADERS:
        return "", ""
    return next((row for prefix, row in _HEADERS.items() if name.startswith(prefix)), ("", ""))


def _in_includes(source: Source) -> Iterator[Unsupported]:
    for directive in source.directives:
        feature, names = _lacking_header(directive)
        if names:
            yield from _brought(source, feature, names)
            yield from _tested(source, feature, names)
        elif feature:
            yield Unsupported(feature, directive.at.start)


def _brought(source: Source, feature: str, names: str) -> Iterator[Unsupported]:
    for run in source.runs():
        for token in run.tokens:
            if token.kind == "name" and re.fullmatch(names, token.text):
                yield Unsupported(feature, token.start)


def _tested(source: Source, feature: str, names: str) -> Iterator[Unsupported]:
    """Conditions on what the header may define: they cost the file, which lacks the header."""
    own = {each.macro for each in source.directives}
    for directive in source.directives:
        if directive.name not in ("if", "ifdef", "ifndef", "elif", "elifdef", "elifndef"):
            continue
        for token in directive.tokens:
            may_define = re.fullmatch(rf"__\w*|_[A-Z]\w*|{names}", token.text)
            if token.kind == "name" and token.text != "defined" and (
                may_define or token.text not in own
            ):  # fmt: skip
                yield Unsupported(feature, directive.at.start)


def _names_of_its_own(code: Run) -> frozenset[str]:
    """The names that may stand in a namespace cuda or cub that the file declares."""
    texts = [token.text for token in code.tokens]
    if not _NAMESPACE.search(" ".join(texts)):
        return frozenset()
    return frozenset(name for before, name in itertools.pairwise(texts) if before != "::")


def _in_names(run: Run, macros: Container[str], own: Container[str]) -> Iterator[Unsupported]:
    for i, token in enumerate(run.tokens):
        if token.kind != "name":
            continue
        feature = _NAMES.get(token.text) or next(
            (feature for prefix, feature in _PREFIXES.items() if token.text.startswith(prefix)),
            None,
        )
        is_qualified = _next(run, i) == "::" and _next(run, i + 1) not in own
        if token.text in _NAMESPACES and is_qualified and not _is_ours(run, i):
            feature = _NAMESPACES[token.text]
        if token.text in ptx.WORDS and ptx.rewrite(run.tokens, i, macros):
            feature = None
        elif token.text in ptx.WORDS and (opcode := ptx.unknown_opcode(run.tokens, i, macros)):
            feature = f"{feature}: {opcode}"
        if token.text == "texture" and _next(run, i) == "<":
            feature = "textures"
        if feature:
            yield Unsupported(feature, token.start)


def _is_ours(run: Run, i: int) -> bool:
    """Whether a name of namespace cuda, cuda::std or cub is in one of our headers."""
    of_std = run.tokens[i].text == "std"
    if of_std and [token.text for token in run.tokens[max(0, i - 2) : i]] != ["cuda", "::"]:
        return True
    name = _next(run, i + 1)
    if of_std and (_OF_STANDARD_20.fullmatch(name) or name in _of_the_standard_library()):
        return True
    names = _OUR_NAMES_OF_CUB if run.tokens[i].text == "cub" else _OUR_NAMES
    return bool(names.fullmatch(name))


@functools.cache
def _of_the_standard_library() -> frozenset[str]:
    """The names of cuda::std that are those of C++'s own library here."""
    text = (_INCLUDE / "warpgrade" / "standard.h").read_text()
    return frozenset(re.findall(r"::std::(\w+)", text))


def _in_questions(source: Source) -> Iterator[Unsupported]:
    """CUDA's names that the headers lack, in a file that may ask whether an expression is valid.

    There they make no error of g++.
    """
    words = [token for run in source.runs() for token in run.tokens if token.kind == "name"]
    if not any(word.text in ("decltype", "requires") for word in words):
        return
    for word in words:
        feature = lacking(word.text) if re.match("__|cu|CU", word.text) else None
        if feature and word.text not in _of_our_headers():
            yield Unsupported(feature, word.start)


@functools.cache
def _of_our_headers() -> frozenset[str]:
    headers = [each for each in _INCLUDE.rglob("*") if each.is_file()]
    return frozenset(re.findall(r"\w+", " ".join(each.read_text() for each in headers)))


def _next(run: Run, i: int) -> str:
    return run.tokens[i + 1].text if i + 1 < len(run.tokens) else ""


def _in_launches(source: Source) -> Iterator[Unsupported]:
    """Launches from functions that only run on the device."""
    for each in bodies(source):
        body = () if each.on_host else source.code.tokens[each.begin : each.end]
        words = [token.text for token in body]
        if "__global__" in words or ("extern" in words and '"C"' in words):
            continue  # a brace is missing: the compiler will report it
        for token in body:
            if token.text == "<<<":
                yield Unsupported("launches from device code (dynamic parallelism)", token.start)


@dataclass(frozen=True)
class Body:
    """Indices of a device function's first token and of its body's braces."""

    head: int
    begin: int
    end: int
    on_host: bool  # __host__ __device__


def bodies(source: Source) -> Iterator[Body]:
    """The functions that run on the device."""
    run = source.code.tokens
    device, host = _spellings(source)
    for i, token in enumerate(run):
        if device.get(token.text, len(run)) > i:
            continue
        head, j = tokens.statement_start(run, i), i
        while j < len(run) and run[j].text not in (";", "{", "="):
            j += 1
        if j < len(run) and run[j].text == "{":
            end = tokens.closing(run, j)
            if end is not None:
                yield Body(head, j, end, any(each.text in host for each in run[head:j]))


def _spellings(source: Source) -> tuple[dict[str, int], set[str]]:
    """The words that mark device code, each with the first token that it may be, and host code.

    They are CUDA's, and macros like `#define DEVICE __forceinline__ __device__`.
    """
    device, host, others = {"__global__": 0, "__device__": 0}, {"__host__"}, set()
    for each in _for_nvcc(source.directives):
        words = {token.text for token in each.body} if each.macro else set()
        if "__host__" in words:
            host.add(each.macro)
        if words & {"__global__", "__device__"} and not words & {"{", "}", ";", "="}:
            device.setdefault(each.macro, each.before)
        else:
            others.add(each.macro)
    return {word: first for word, first in device.items() if word not in others}, host


_OF_NVCC = re.compile(r"(?:defined )?(?:\( )?(?:__CUDACC__|__NVCC__)(?: \))?")


def _for_nvcc(directives: Sequence[Directive]) -> Iterator[Directive]:
    """The directives that nvcc may read: none behind the #else of an `#ifdef __CUDACC__`."""
    read: list[bool | None] = []  # of each open conditional, whether nvcc does; None: not known
    for each in directives:
        if each.name in ("if", "ifdef", "ifndef"):
            asks = _OF_NVCC.fullmatch(" ".join(token.text for token in each.tokens))
            read.append(each.name != "ifndef" if asks else None)
        elif each.name == "endif" and read:
            read.pop()
        elif each.name.startswith("el") and read and read[-1] is not None:
            read[-1] = not read[-1] if each.name == "else" else None
        elif False not in read:
            yield each


# In the static assertions of our headers.
_REFUSED = re.compile(r"static assertion failed: (.+) are not modelled")
# g++'s messages about valid CUDA that our headers can't express.
_WORDS = {
    "has no member named 'barrier_arrive'": "barriers in two steps (barrier_arrive, barrier_wait)",
    "has no member named 'barrier_wait'": "barriers in two steps (barrier_arrive, barrier_wait)",
    "has no member named 'numRegs'": "the number of a kernel's registers (numRegs)",
    "has no member named 'localSizeBytes'": "a kernel's local memory (localSizeBytes)",
    "no match for call to '(launcher) (<unresolved overloaded": (
        "a launch in a macro whose kernel template is known by its arguments only"
    ),
}


def in_words(message: str) -> str | None:
    """The feature that a compiler's error message is about, or None."""
    plain = message.replace("\u2018", "'").replace("\u2019", "'")
    if refused := _REFUSED.search(plain):
        return refused[1]
    return next((feature for words, feature in _WORDS.items() if words in plain), None)


def lacking(name: str) -> str | None:
    """The CUDA feature of a name that g++ doesn't know, or None."""
    for feature, pattern in _LACKING.items():
        if re.fullmatch(pattern, name):
            return f"{feature} ({name})"
    return None
