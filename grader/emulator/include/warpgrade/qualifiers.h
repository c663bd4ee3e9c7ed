// CUDA's qualifiers. `__noinline__` isn't here: the C++ library spells an attribute that way, so
// the rewriter replaces it in the submission's text only.
#ifndef WARPGRADE_QUALIFIERS_H
#define WARPGRADE_QUALIFIERS_H

// Flattened: what it calls is inlined, as on a GPU, because g++ instruments no store of a structure
// that a call returns (`out4[i] = f(x)`). Its patchable entry marks it as a kernel in the object,
// where nothing else tells it from a host function (kernel_symbols.py).
#define __global__ __attribute__((noinline, flatten, patchable_function_entry(1)))
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
// Thread-local storage is the shared memory: see runtime/core.h. Used: stores to it count, even if
// nothing reads them.
#define __shared__ static __thread __attribute__((used))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __device_builtin__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDART_CB

// Of our own: inlined into the student's function, so that a hook's return address lies there;
// and functions of the emulator's that no hook sees.
#ifndef WARPGRADE_INLINE
#define WARPGRADE_INLINE inline __attribute__((always_inline))
#endif
#if __has_attribute(no_sanitize_coverage)
#define WARPGRADE_UNSEEN __attribute__((no_sanitize("thread", "undefined"), no_sanitize_coverage))
#else
#define WARPGRADE_UNSEEN __attribute__((no_sanitize("thread", "undefined")))
#endif

#endif
