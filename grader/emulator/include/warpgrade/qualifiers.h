// CUDA's qualifiers, without `__noinline__`: the C++ library has an attribute of that spelling, so
// the rewriter removes it from the submission's text only.
#ifndef WARPGRADE_QUALIFIERS_H
#define WARPGRADE_QUALIFIERS_H

// Flattened: calls are inlined, as on a GPU, since g++ instruments neither stores of structures that
// a call returns (`out4[i] = f(x)`) nor loads of those that it is passed (`f(in4[i])`). Its
// patchable entry marks a kernel in the object, where nothing else distinguishes it from a host
// function (kernel_symbols.py).
#define __global__ __attribute__((noinline, flatten, patchable_function_entry(1)))
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
// Shared memory is thread-local storage: see runtime/core.h. Used: stores to it count, even if
// nothing reads them.
#define __shared__ static __thread __attribute__((used))
#define __forceinline__ __inline__ __attribute__((always_inline))
// The rewriter puts the mark into the body (rewriter.py).
#define __launch_bounds__(...)
// Two no-ops with numbers in them, a known one and that of the threads: runtime/symbols.cpp looks
// for them in the kernel's code. So the mark needs no section that the linker would have to keep.
#define WARPGRADE_LAUNCH_BOUNDS(threads)                                                \
    {                                                                                   \
        constexpr unsigned warpgrade_threads = static_cast<unsigned>(threads);          \
        __asm__ volatile(".byte 0x0f, 0x1f, 0x80\n\t.long 0x6c626e64\n\t"              \
                         ".byte 0x0f, 0x1f, 0x80\n\t.long %c0" ::"i"(warpgrade_threads)); \
    }
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __device_builtin__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDART_CB

// Our own: inlined into the student's function, so that a hook's return address is there; and
// functions of the emulator's that hooks don't see.
#ifndef WARPGRADE_INLINE
#define WARPGRADE_INLINE inline __attribute__((always_inline))
#endif
#if __has_attribute(no_sanitize_coverage)
#define WARPGRADE_UNSEEN __attribute__((no_sanitize("thread", "undefined"), no_sanitize_coverage))
#else
#define WARPGRADE_UNSEEN __attribute__((no_sanitize("thread", "undefined")))
#endif

#endif
