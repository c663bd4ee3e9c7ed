"""Checks the symbols that a submission's object defines and uses.

The linker works by symbols, so they decide with certainty: whether an entry exists and is `extern
"C"`, whether there is a `main`, which functions of the C library are called. Other symbols than the
listed ones are refused before anything runs: a kernel needs no files, processes, signals or memory
maps.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from . import glue, kernel_symbols
from .assembly import ACCESSES
from .elf import FUNCTION, INDIRECT_FUNCTION, THREAD_LOCAL, Elf, Symbol
from .glue import Entry

STATIC_SHARED_LIMIT = 48 * 1024  # bytes per kernel; ptxas refuses more
CONSTANT_LIMIT = 64 * 1024  # bytes per file; ptxas refuses more

Kind = Literal["signature", "entry_missing", "no_extern_c", "main", "symbol", "compile", "hardware"]


@dataclass(frozen=True)
class Fault:
    """A fault of an object. `name` is the symbol, for finding its line in the source."""

    kind: Kind
    message: str
    name: str = ""
    entry: str = ""
    is_absent: bool = False  # no function of the object has the entry's name


_MATHS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1
fabs fdim floor fma fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10
log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round
roundeven scalbln scalbn sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn
"""
# What launchers alone may call of the C and C++ libraries.
_OF_THE_HOST = """
div ldiv lldiv rand srand rand_r random srandom drand48 srand48 qsort bsearch atoi atol atoll atof
strtol strtoll strtoul strtoull strtof strtod memchr memmem strchr strlen strrchr strstr strtok
strdup strerror strnlen strspn strcspn strpbrk isalnum isalpha isdigit islower isprint ispunct
isspace isupper isxdigit tolower toupper __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc
__errno_location fprintf vprintf vfprintf sprintf snprintf vsnprintf vsprintf putc fputs fputc
fwrite fflush perror stdout stderr sscanf __isoc99_sscanf __isoc23_sscanf __isoc23_strtol
__isoc23_strtoll __isoc23_strtoul __isoc23_strtoull aligned_alloc posix_memalign time clock_gettime
gettimeofday difftime pthread_once pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock
pthread_mutex_trylock pthread_mutex_unlock __once_proxy sched_yield exit atexit feclearexcept
fetestexcept __cxa_atexit __cxa_begin_catch __cxa_end_catch __cxa_rethrow __cxa_throw
__cxa_allocate_exception __cxa_free_exception __cxa_throw_bad_array_new_length __cxa_bad_cast
__cxa_bad_typeid __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort __cxa_pure_virtual
__cxa_deleted_virtual __cxa_finalize __cxa_call_unexpected __dynamic_cast
__cxa_init_primary_exception __cxa_get_globals __cxa_throw_bad_array_length _ZnwmRKSt9nothrow_t
_ZnamRKSt9nothrow_t _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
"""
# What device code may call, too: CUDA has it, or g++ asks for it where code can't go on. Stores of
# other functions would be neither watched nor counted.
_ON_BOTH = """
abs labs llabs printf puts putchar malloc calloc realloc free clock abort __assert_fail fegetround
fesetround _Unwind_Resume __gxx_personality_v0 __dso_handle _GLOBAL_OFFSET_TABLE_ __tls_get_addr
__stack_chk_fail __fpclassify __fpclassifyf __isnan __isnanf __isinf __isinff __finite __finitef
__signbit __signbitf _Znwm _Znam _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZnwmSt11align_val_t
_ZnamSt11align_val_t _ZdlPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvSt11align_val_t
"""
_ON_THE_DEVICE = {*_ON_BOTH.split(), *ACCESSES} | {
    stem + suffix for stem in _MATHS.split() for suffix in ("", "f", "l")
}
ALLOWED = frozenset(_ON_THE_DEVICE.union(_OF_THE_HOST.split()))
# The C++ library's, without files, threads, processes and changes of the streams.
_LIBRARY = re.compile(r"_Z(?:N[KVRO]*S[absiod]|N[KVRO]*St|St|GV?NSt|T[VTIS]N?S[tabsiod]?|T[VTIS]S)")
# libgcc's arithmetic that the processor lacks: __popcountdi2, __udivti3, __mulsc3, __extendhfsf2.
_ARITHMETIC = re.compile(
    r"__(?:popcount|parity|clz|ctz|ffs|clrsb|bswap|powi)[sdtx][if]2"
    r"|__(?:u?div|u?mod|u?divmod|mul|ash[lr]|lshr)[sdt]i[34]"
    r"|__(?:mul|div)[hsdxt]c3|__(?:float(?:un)?|fix(?:uns)?|extend|trunc)[a-z]{4}2?"
)
_RUNTIME_TYPES = re.compile(r"_ZT[VIS](?:N10__cxxabiv1|[a-zP])")
_OPERATORS = re.compile(r"_Z(?:Sl|Sr|ls|rs|eq|pl|lt)?(?:ISt|St|NSt)")
_REFUSED_LIBRARY = re.compile(
    r"filebuf|fstream|10filesystem|6thread|thread_|condition_variable|random_device|basic_file"
    r"|future|stop_token|stdio_sync|quick_exit|set_terminate|set_new_handler"
    r"|codecvt|dynamic_loader|3pmr|14__basic_file"
)

# What code asks for where it throws or can't go on. CUDA's templates lead to it in kernels, too.
_FAILURES = re.compile(
    r"__cxa_|_ZSt\d+(?:__throw_|__glibcxx_assert_fail|terminate)"
    r"|_ZNK?St\d+(?:exception|bad_[a-z_]+|[a-z]+_error)[CD0-9]|_ZT[VIS]"
)

# Functions that the C and C++ libraries call through the dynamic linker: a program's definition
# would replace them there too. The symbols that a submission may call count as well.
_SERVICES_TEXT = """
read write open open64 close lseek lseek64 stat fstat fstat64 poll readv writev send recv sendto
recvfrom sendmsg recvmsg socket mmap mmap64 munmap mprotect mremap madvise brk sbrk sigaction
sigaltstack signal raise kill getenv secure_getenv syscall fopen fopen64 fdopen fclose fileno
fread fgets getc ungetc getline setvbuf fseek fseeko fseeko64 ftell ftello ftello64 ioctl fcntl
wcslen wmemcpy wmemset wmemmove wmemchr wmemcmp btowc wctob mbrtowc wcrtomb mbsrtowcs wcsnrtombs
strcoll strxfrm strftime wcsftime strtold uselocale newlocale freelocale duplocale setlocale
localeconv iconv dl_iterate_phdr sched_yield nanosleep usleep sleep fork vfork execve
posix_spawn waitpid dlopen dlsym dlclose getpid getrandom memalign valloc pvalloc malloc_usable_size
quick_exit at_quick_exit setjmp longjmp environ stdin
"""
_SERVICES = frozenset(_SERVICES_TEXT.split())
_OURS_TO_DEFINE = re.compile(
    r"__|_(?:init|fini|start|end|edata|exit|Exit|Unwind_.*|dl_.*)\Z|pthread_"
)
_OURS = re.compile("warpgrade_|_ZNK?9warpgrade|__tsan|__sanitizer|__ubsan")
_OPERATORS_NEW_DELETE = re.compile(r"_Z(?:n[wa]|d[la])")
# Sections of code that runs by itself, and the entries that compilers make: objects at file scope,
# the hook that starts observation (priority 99), the registration of kernels.
_RUN_BY_THEMSELVES = re.compile(
    r"\.(?:preinit_array|init_array|fini_array|ctors|dtors|init|fini)\b"
)
_MADE_BY_COMPILER = (
    (".init_array", "_GLOBAL__sub_I_"),
    (".init_array.00099", "_sub_I_00099_"),
    (".init_array", "_ZL24__sti____cudaRegisterAllv"),  # nvcc's
)


def is_allowed(name: str, provided: Collection[str]) -> bool:
    """Whether a submission's object may use this symbol."""
    if name in provided or name in ALLOWED:
        return True
    if _ARITHMETIC.fullmatch(name):
        return True
    mangled = bool(_LIBRARY.match(name) or _RUNTIME_TYPES.match(name) or _OPERATORS.match(name))
    return mangled and not _REFUSED_LIBRARY.search(name)


def check(
    elf: Elf,
    entries: Sequence[Entry],
    provided: Collection[str],
    reserved: Collection[str],
    unused: Collection[str] = (),
) -> list[Fault]:
    """All faults of a submission's object; empty where it may be linked.

    `unused` are undefined symbols that are not linked (see `unreachable`).
    """
    return [
        *_undefined(elf, provided, unused),
        *_defined(elf, reserved),
        *_run_by_themselves(elf),
        *_too_much_shared(elf),
        *_too_much_constant(elf),
        *(fault for entry in entries if (fault := entry_fault(elf, entry))),
    ]


def host_functions(elf: Elf, provided: Collection[str]) -> list[Fault]:
    """A fault for each library function of the host that a kernel reaches."""
    names = [
        name
        for name in sorted(_asked_symbols(elf, kernel_symbols.find(elf).all))
        if is_allowed(name, ())
        and name not in _ON_THE_DEVICE.union(provided)
        and not (_ARITHMETIC.fullmatch(name) or _FAILURES.match(name))
    ]
    return [
        Fault("compile", f"{name} is a function of the host, which no kernel can call", name)
        for name in dict.fromkeys(_readable(names))
    ]


def _undefined(elf: Elf, provided: Collection[str], unused: Collection[str]) -> Iterator[Fault]:
    refused = [name for name in _refused(elf, provided) if name not in unused]
    for name in dict.fromkeys(_readable(refused)):  # each once, in their order
        yield Fault("symbol", f"{name} can't be used in a submission", name)


def _refused(elf: Elf, provided: Collection[str]) -> list[str]:
    return [
        symbol.name
        for symbol in elf.symbols
        if not symbol.is_defined and symbol.name and not is_allowed(symbol.name, provided)
    ]


def unreachable(elf: Elf, entries: Sequence[Entry], provided: Collection[str]) -> list[str]:
    """The forbidden symbols that only dead code uses.

    Live code is what an entry, a kernel, or code that runs by itself reaches. Our own names are
    refused everywhere.
    """
    refused = [name for name in _refused(elf, provided) if not _OURS.match(name)]
    if not refused:
        return []
    entered = [entry.name for entry in entries]
    asked = _asked_symbols(elf, {*kernel_symbols.find(elf).all, *entered}, _ALWAYS_THERE)
    return [name for name in refused if name not in asked]


def _readable(names: Sequence[str]) -> list[str]:
    """Symbols as a student may have written them: std::ifstream, write."""
    readable = []
    for name in demangled(names):
        plain = re.split(r"[<(\[]", name.rpartition(" for ")[2])[0]
        plain = re.sub(r"\A__isoc\d+_", "", plain)  # the C library's names for its versions
        parts = plain.replace("basic_", "").replace("__cxx11::", "").split("::")
        readable.append("::".join(parts[:2]))
    return readable


def demangled(names: Sequence[str]) -> list[str]:
    """Symbols with their types, as c++filt writes them: void run<4>(float*, int)."""
    if not any(name.startswith("_Z") for name in names):
        return list(names)
    done = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else list(names)


def _defined(elf: Elf, reserved: Collection[str]) -> Iterator[Fault]:
    for symbol in elf.symbols:
        if not symbol.is_defined or symbol.is_local or not symbol.name:
            continue
        if symbol.name == "main":
            message = "the file has a main(), and the grader brings its own"
            yield Fault("main", message, "main")
        elif symbol.kind == INDIRECT_FUNCTION:
            name = plain_name(symbol.name)
            yield Fault("symbol", f"{name} is chosen while the program is loaded (ifunc)", name)
        elif _replaces(symbol, reserved):
            name = plain_name(symbol.name)
            yield Fault("symbol", f"{name} is the name of a library function; use another", name)


def _replaces(symbol: Symbol, reserved: Collection[str]) -> bool:
    """Whether a symbol of the submission's would replace one that other code calls.

    Weak definitions of C++ names are copies of the library's templates and inline functions, which
    every object has.
    """
    name = symbol.name
    if name.startswith(glue.SIGNATURE_SYMBOL):
        return False
    if name.startswith("_Z") and not _OPERATORS_NEW_DELETE.match(name):
        return name in reserved and not symbol.is_weak
    if name in reserved or _OURS_TO_DEFINE.match(name):
        return True
    is_function = symbol.kind == FUNCTION
    return is_function and (name in ALLOWED or name in _SERVICES)


def _run_by_themselves(elf: Elf) -> Iterator[Fault]:
    """Functions that run before or after the entry, except constructors at file scope."""
    named = {(s.section, s.value): s.name for s in elf.symbols if s.kind == FUNCTION}
    for section in elf.sections:
        if section.size and section.name in (".init", ".fini"):
            yield Fault("symbol", f"code in the section {section.name} runs by itself", "")
    expected = list(_MADE_BY_COMPILER)
    for section, relocation in elf.relocations(
        lambda each: bool(_RUN_BY_THEMSELVES.match(each.name))
    ):
        target = elf.symbols[relocation.symbol]
        name = named.get((target.section, target.value + relocation.addend), "")
        made = [e for e in expected if e[0] == section.name and name.startswith(e[1])]
        if made:
            expected.remove(made[0])  # one entry of each
        else:
            shown = plain_name(name)
            message = f"{shown or 'a function'} runs by itself ({section.name})"
            yield Fault("symbol", f"{message}, not when the entry is called", shown)


def _too_much_shared(elf: Elf) -> Iterator[Fault]:
    """Static shared memory beyond a kernel's limit; its variables name their function."""
    total: dict[str, int] = {}
    for symbol in elf.symbols:
        if symbol.kind == THREAD_LOCAL and symbol.is_defined:
            function = _enclosing_function(symbol.name)
            if function:
                total[function] = total.get(function, 0) + symbol.size
    for function, size in total.items():
        if size > STATIC_SHARED_LIMIT:
            name = plain_name(function)
            yield Fault(
                "hardware",
                f"{name} has {size:,} bytes of static __shared__ memory; "
                f"a kernel can have {STATIC_SHARED_LIMIT:,}, and more only as extern __shared__, "
                "asked for with cudaFuncSetAttribute",
                name,
            )


def _too_much_constant(elf: Elf) -> Iterator[Fault]:
    """Constant memory beyond a GPU's; the largest variable is named."""
    for number, section in enumerate(elf.sections):
        if section.name != "warpgrade_constant" or section.size <= CONSTANT_LIMIT:
            continue
        held = (symbol for symbol in elf.symbols if symbol.section == number)
        name = plain_name(max(held, key=lambda symbol: symbol.size).name)
        limit = f"of which a GPU has {CONSTANT_LIMIT:,} bytes for a file"
        yield Fault("hardware", f"{section.size:,} bytes of __constant__ memory, {limit}", name)


def _enclosing_function(name: str) -> str:
    """The mangled name of a local static's function, of _ZZ<function>E<variable>."""
    if not name.startswith("_ZZ"):
        return ""
    return "_Z" + name[3 : name.rindex("E")] if "E" in name else ""


# ---- Entries -------------------------------------------------------------------------------------


def entry_fault(elf: Elf, entry: Entry) -> Fault | None:
    """The fault that prevents an entry from being called, or None; kernels may have its name."""
    kernels = kernel_symbols.find(elf).kernels
    static = f"_ZL{_length(entry)}"
    defined = [s for s in elf.symbols if s.is_defined and s.kind == FUNCTION]
    exact = next((s for s in defined if s.name == entry.name), None)
    mangled = [s.name for s in defined if _is_mangled(s, entry)]
    named = [*mangled, *(s.name for s in defined if s.name.startswith(static))]
    hosts = {*named} - {*kernels}
    if entry.name in kernels or (exact is None and named and not hosts):
        return kernel_fault(entry.name)
    if exact is not None and not exact.is_local:
        return _signature_fault(elf, entry)
    declared = any(s.name == glue.SIGNATURE_SYMBOL + entry.name for s in elf.symbols)
    is_static = exact is not None or any(name.startswith(static) for name in hosts)
    if is_static or (declared and _signature_code(elf, entry) != glue.OTHER and not mangled):
        message = f"`{entry.name}` is static, or has no body, so the grader can't call it"
        return Fault("no_extern_c", message, entry.name, entry.name, not (exact or named))
    if mangled:
        message = f'`{entry.name}` is there, but not as extern "C", so the grader can\'t call it'
        return Fault("no_extern_c", message, entry.name, entry.name)
    return Fault("entry_missing", f"there is no function {entry.name}", "", entry.name, True)


def kernel_fault(entry: str) -> Fault:
    """The fault of an entry that is a kernel."""
    message = f"{entry} is a kernel; the entry is a host function that launches kernels"
    return Fault("signature", message, entry, entry)


def _length(entry: Entry) -> str:
    return f"{len(entry.name)}{entry.name}"


def _is_mangled(symbol: Symbol, entry: Entry) -> bool:
    """Whether a symbol is a C++ function of the entry's name, in any namespace."""
    is_plain = re.match(r"_Z(?:\d|N)", symbol.name) is not None
    return is_plain and plain_name(symbol.name) == entry.name


def _signature_code(elf: Elf, entry: Entry) -> int:
    wanted = glue.SIGNATURE_SYMBOL + entry.name
    return next((s.size for s in elf.symbols if s.name == wanted), glue.RIGHT)


def _is_marked(elf: Elf, entry: Entry) -> bool:
    """Whether an overloaded entry's extern "C" function has the expected type.

    The marks (include/warpgrade/signature.h) contain the symbols of functions of that type. For an
    extern "C" function that is its plain name.
    """
    function = f"L_Z{_length(entry)}E"
    return any("13overload_mark" in s.name and function in s.name for s in elf.symbols)


def _signature_fault(elf: Elf, entry: Entry) -> Fault | None:
    code = _signature_code(elf, entry)
    if code == glue.RIGHT or (code == glue.OVERLOADED and _is_marked(elf, entry)):
        return None
    expected = f"expected void {entry.name}({', '.join(entry.types())})"
    position = code - glue.ARGUMENT
    if 0 <= position < len(entry.arguments):
        wrong = f"argument {position + 1} of {entry.name} is not {entry.types()[position]}"
    elif code >= glue.COUNT:
        wrong = f"{entry.name} takes {code - glue.COUNT} arguments"
    elif code == glue.OVERLOADED:
        wrong = f'of several functions {entry.name}, the extern "C" one has other arguments'
    else:
        wrong = f"{entry.name} returns a value, or stands in a namespace"
    message = f"{wrong}; {expected}"
    return Fault("signature", message, entry.name, entry.name)


# ---- Names ---------------------------------------------------------------------------------------


def plain_name(name: str) -> str:
    """The last plain name in a mangled one, good enough for a message: `_Z4gemmPf` -> gemm."""
    if not name.startswith("_Z"):
        return name
    position = 2
    last = ""
    while position < len(name):
        part = re.compile(r"[A-Z]*?(\d+)").match(name, position)
        if not part:
            break
        start, length = part.end(), int(part[1])
        last = name[start : start + length] or last
        position = start + length
        if position >= len(name) or not re.match(r"\d|I|C|N", name[position:]):
            break
    return last or name


# Sections that the linker always keeps, and those that are found through other sections.
_ALWAYS_THERE = (
    *(".preinit_array", ".init", ".fini", ".ctors", ".dtors", ".gcc_except_table"),
    "__patchable_function_entries",
)


def of_kernels(elf: Elf) -> set[str]:
    """The functions that kernels reach, themselves among them."""
    reached, _ = _reached(elf, kernel_symbols.find(elf).all)
    functions = (each for each in elf.symbols if each.kind == FUNCTION)
    return {each.name for each in functions if _section_of(elf, each) in reached}


def _asked_symbols(elf: Elf, roots: Collection[str], sections: tuple[str, ...] = ()) -> set[str]:
    """The undefined symbols that functions and variables, or sections of these names, reach."""
    return _reached(elf, roots, sections)[1]


def _reached(
    elf: Elf, roots: Collection[str], sections: tuple[str, ...] = ()
) -> tuple[set[str], set[str]]:
    """The sections, and the undefined symbols, that these roots and these sections reach.

    Functions and variables have sections of their own, so relocations show what reaches what.
    """
    leads: dict[str, list[Symbol]] = {}  # by the name of the section with the reference
    for section, relocation in elf.relocations():
        leads.setdefault(section.name, []).append(elf.symbols[relocation.symbol])
    waiting = [_section_of(elf, each) for each in elf.symbols if each.name in roots]
    waiting += [name for name in leads if sections and name.startswith(sections)]
    reached: set[str] = set()
    result: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for symbol in leads.get(name, ()):
            if symbol.is_defined:
                waiting.append(_section_of(elf, symbol))
            else:
                result.add(symbol.name)
    return reached, result


def _section_of(elf: Elf, symbol: Symbol) -> str:
    defined = 0 < symbol.section < len(elf.sections)
    return elf.sections[symbol.section].name if defined else ""
