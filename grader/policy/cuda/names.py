"""Tables of the headers and names that CUDA source may use and may not use."""

from __future__ import annotations

import re

from grader.emulator.lexer import NOBODYS_MACROS

# --- headers --------------------------------------------------------------------------------------

_C = (
    "assert ctype errno float inttypes limits math stdalign stdarg stdbool stddef stdint stdio "
    "stdlib string time"
)
_CPP = (
    "algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv "
    "chrono cinttypes climits cmath compare complex concepts condition_variable cstdarg cstddef "
    "cstdint cstdio cstdlib cstring ctime cwchar deque exception filesystem format forward_list "
    "fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator "
    "latch limits list locale map memory mutex new numbers numeric optional ostream queue random "
    "ranges ratio regex semaphore set shared_mutex source_location span sstream stack stdexcept "
    "stop_token streambuf string string_view system_error thread tuple type_traits typeindex "
    "typeinfo unordered_map unordered_set utility valarray variant vector version"
)
_CUDA = (
    "builtin_types channel_descriptor cooperative_groups cuComplex cuda cuda_awbarrier cuda_bf16 "
    "cuda_bf16_raw cuda_device_runtime_api cuda_fp16 cuda_fp4 cuda_fp6 cuda_fp8 cuda_pipeline "
    "cuda_pipeline_primitives cuda_profiler_api cuda_runtime cuda_runtime_api "
    "device_atomic_functions device_double_functions device_functions device_launch_parameters "
    "device_types driver_types host_defines math_constants math_functions mma sm_20_intrinsics "
    "sm_30_intrinsics sm_32_intrinsics sm_35_intrinsics sm_60_atomic_functions sm_61_intrinsics "
    "surface_types texture_types vector_functions vector_types"
)
# Files with kernels often include these and use nothing of them; names decide, and the object.
_SYSTEMS = "fcntl unistd sys/mman sys/stat sys/time sys/types"
HEADERS = frozenset(
    {f"{name}.h" for name in f"{_C} {_CUDA} {_SYSTEMS}".split()}
    | set(_CPP.split())
    | {f"cooperative_groups/{name}.h" for name in ("memcpy_async", "reduce", "scan")}
)
# libcu++: CUDA's own standard library for device code, header by header.
CUDA_STANDARD = re.compile(
    r"cuda/(std/[a-z_]{1,30}|annotated_ptr|atomic|barrier|bit|cmath|functional|latch|numeric"
    r"|pipeline|ptx|semaphore|type_traits|utility|warp)"
)
# Libraries that do an exercise's work: by header, and by names in the code.
LIBRARY_HEADER = re.compile(
    r"(cublas|cublaslt|cudnn|cufft|curand|cusolver|cusparse|cutensor|cudss|nccl|npp|nvjpeg|cblas"
    r"|lapacke|mkl|openblas)\w*\.h(pp)?|(thrust|cub|cutlass|cute|torch|aten|c10|eigen|matx|raft"
    r"|rmm|kokkos|oneapi|tbb|moderngpu)(/.*|\.h|\.cuh)",
    re.IGNORECASE,
)
OF_TORCH = frozenset({"torch", "aten", "c10"})  # of those, what an extension's wrappers need
# Of those, libraries that a file may include without use, by the lower-case prefix of their names.
_NAMED_SO = "cublas cudnn cufft curand cusolver cusparse nccl thrust cub cute"
UNUSED = {
    **{name: (name,) for name in _NAMED_SO.split()},
    "cublaslt": ("cublas",),
    "cutlass": ("cutlass", "cute"),
}
# Those whose names the emulator declares without an implementation.
SEEN_IN_OBJECT = frozenset({"cublas", "cublaslt"})
LIBRARY_NAME = re.compile(
    r"(cublas|cublasLt|cudnn|cufft|cusolver|cusparse|cutensor|nccl|nvrtc|nvJitLink|nppi|npps)"
    r"[A-Z]\w*|cblas_\w+|LAPACKE_\w+"
)
LIBRARY_NAMESPACES = frozenset({"thrust", "cub", "cutlass", "cute", "torch", "at", "Eigen"})

# --- the system -----------------------------------------------------------------------------------

# No kernel needs these anywhere.
_SYSTEM = (
    "system popen pclose fork vfork execl execlp execle execv execve execvp execvpe execveat "
    "fexecve posix_spawn posix_spawnp dlopen dlmopen dlsym dlvsym dladdr dladdr1 dlclose dlinfo "
    "dl_iterate_phdr mmap mmap64 munmap mremap mprotect pkey_mprotect madvise memfd_create "
    "memfd_secret shm_open shm_unlink shmat shmget process_vm_readv process_vm_writev ptrace "
    "prctl arch_prctl syscall sigaction sigaltstack sigprocmask siglongjmp sigsetjmp setjmp "
    "_setjmp longjmp _longjmp atexit at_quick_exit on_exit quick_exit _exit _Exit getenv "
    "secure_getenv setenv putenv unsetenv clearenv environ __environ socket socketpair setsockopt "
    "getsockopt getaddrinfo gethostbyname fopen fopen64 freopen freopen64 fdopen fmemopen tmpfile "
    "tmpfile64 tmpnam mkstemp mkdtemp opendir readdir openat openat64 open64 creat creat64 unlink "
    "unlinkat rmdir mkdir symlink readlink realpath chmod chown fchmod ftruncate ftruncate64 "
    "truncate sendmsg recvmsg sendto recvfrom sendfile splice vmsplice ioctl fcntl fcntl64 dup2 "
    "dup3 pipe2 pread pread64 pwrite pwrite64 readv writev epoll_create epoll_create1 epoll_wait "
    "eventfd setrlimit getrlimit prlimit personality unshare setns mount umount umount2 chroot "
    "pivot_root getcontext makecontext swapcontext setcontext backtrace set_terminate "
    "set_new_handler set_unexpected getppid getpid gettid tgkill killpg setuid setgid thrd_create "
    "sched_yield sched_setaffinity ifstream ofstream basic_ifstream basic_ofstream basic_fstream "
    "jthread cudaLaunchHostFunc cudaStreamAddCallback cudaDeviceReset _start"
)
SYSTEM = frozenset(_SYSTEM.split())
# Of those, words that a launcher may call a variable of its own, such as the event of a fork.
SYSTEM_NOUNS = frozenset({"fork", "splice", "truncate", "mount", "backtrace", "_start"})
_SYSTEM_PREFIXES = (
    "pthread_ cudaIpc cuIpc cuModuleLoad cuLibraryLoad cuLink cuLaunchHostFunc cuMemImport "
    "cuMemExport cudaLibraryLoad"
)
SYSTEM_PREFIXES = tuple(_SYSTEM_PREFIXES.split())
# Words that a kernel may use otherwise: violations only where they are called and the file doesn't
# define them. With std:: before them, only the object shows whether they are the system's.
_SYSTEM_WORDS = (
    "open close read write send recv connect kill link bind accept listen pipe dup select poll "
    "signal raise wait waitpid remove rename clone access stat chdir daemon pause alarm sleep "
    "usleep nanosleep"
)
SYSTEM_WORDS = frozenset(_SYSTEM_WORDS.split())

# --- the compiler's and the grader's --------------------------------------------------------------

_RESERVED = (
    "warpgrade _init _fini __ehdr_start __executable_start __builtin_return_address "
    "__builtin_frame_address __builtin_extract_return_addr __builtin_longjmp __builtin_setjmp "
    "__builtin_apply __builtin_apply_args __builtin_return __builtin___clear_cache "
    "__builtin_eh_return __builtin_init_dwarf_reg_size_table __dso_handle __malloc_hook"
)
RESERVED = frozenset(_RESERVED.split())
_RESERVED_PREFIXES = (
    "warpgrade_ WARPGRADE_ __builtin_ia32_ __tsan __sanitizer __SANITIZE_ __asan __msan __lsan "
    "__ubsan __hwasan __cxa_ _Unwind_ __libc_ __cyg_profile __gcov __gmon __stack_chk _dl_ "
    "__cudaRegister __cudaUnregister __cudaPush __cudaPop __cudaInit __wrap_ __real_ __start_ "
    "__stop_ _GLOBAL_"
)
RESERVED_PREFIXES = tuple(_RESERVED_PREFIXES.split())
# Functions that other code in the process calls: a definition would replace them everywhere.
_NOT_TO_DEFINE = (
    "malloc calloc realloc free aligned_alloc posix_memalign memcpy memmove memset memcmp strlen "
    "printf fprintf vprintf vfprintf puts fputs fwrite fflush exit abort write read close "
    "cudaMalloc cudaFree cudaMemcpy cudaMemcpyAsync cudaMemcpy2D cudaMemset cudaMemsetAsync "
    "cudaMallocHost cudaMallocManaged cudaMallocAsync cudaFreeAsync cudaFreeHost cudaLaunchKernel "
    "cudaLaunchKernelExC cudaGetLastError cudaPeekAtLastError cudaDeviceSynchronize "
    "cudaStreamSynchronize cudaStreamCreate cudaEventCreate cudaEventRecord cudaEventSynchronize "
    "cudaEventElapsedTime cudaSetDevice cudaGetDevice cudaGetDeviceProperties "
    "cudaFuncSetAttribute cudaDeviceReset cudaGetErrorString cudaGetErrorName"
)
NOT_TO_DEFINE = frozenset(_NOT_TO_DEFINE.split())

ASSEMBLY = frozenset({"asm", "__asm", "__asm__"})
DEVICE, GLOBAL, HOST = "__device__", "__global__", "__host__"

_KEYWORDS = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t "
    "char32_t class compl concept const consteval constexpr constinit const_cast continue decltype "
    "default defined delete do double dynamic_cast else enum explicit extern false final float for "
    "friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or "
    "or_eq override private protected public register reinterpret_cast requires return short "
    "signed sizeof static static_assert static_cast struct switch template this thread_local throw "
    "true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor "
    "xor_eq __global__ __device__ __host__ __shared__ __constant__ __managed__ __restrict__ "
    "__restrict __forceinline__ __noinline__ __inline__ __launch_bounds__ __grid_constant__ "
    "__syncthreads __syncwarp __attribute__ __attribute __asm__ __asm __volatile__ __extension__ "
    "__typeof__ __declspec threadIdx blockIdx blockDim gridDim warpSize "
    "__CUDACC__ __CUDA_ARCH__ __NVCC__ __GNUC__ __cplusplus __LINE__ __FILE__ __COUNTER__ "
    "__has_include _Pragma"
)
NOT_TO_REDEFINE = NOBODYS_MACROS | frozenset(_KEYWORDS.split())

# --- attributes and pragmas -----------------------------------------------------------------------

_ATTRIBUTES = (
    "aligned align always_inline assume assume_aligned carries_dependency cold const deprecated "
    "device fallthrough flatten format global grid_constant host hot launch_bounds likely malloc "
    "managed may_alias maybe_unused no_unique_address nodiscard noinline nonnull noreturn nothrow "
    "packed pure restrict returns_nonnull shared unlikely unused used vector_size visibility "
    "warn_unused_result"
)
ATTRIBUTES = frozenset(_ATTRIBUTES.split())
GNU = frozenset({"gnu", "__gnu__"})  # namespaces of g++'s attributes
# Attributes of functions whose accesses to memory g++ shows to nobody, and the C library's macro
# that takes a function's attributes from another one.
_KINDS = ("", "_thread", "_undefined", "_address", "_coverage")
_WORDS = (*(f"no_sanitize{kind}" for kind in _KINDS), "no_instrument_function")
UNOBSERVED = frozenset((*_WORDS, *(f"__{word}__" for word in _WORDS), "__attribute_copy__"))
_PRAGMA = (
    r"(unroll|nounroll|once|pack|region|endregion|mark|message|warning|STDC|fp_contract"
    r"|omp|hd_warning_disable|nv_\w+|diag_\w+|(GCC|clang) (diagnostic|unroll|ivdep|loop|warning))\b"
)
PRAGMA = re.compile(_PRAGMA)
_DIRECTIVES = (
    "define undef include if ifdef ifndef elif elifdef elifndef else endif pragma error warning"
)
DIRECTIVES = frozenset(_DIRECTIVES.split())
_OTHERS = "include_next import embed ident sccs assert unassert line"
OTHER_DIRECTIVES = frozenset(_OTHERS.split())  # what g++ knows beyond these
