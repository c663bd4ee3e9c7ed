// Asynchronous copies, as functions of C: cp.async.
#ifndef WARPGRADE_CUDA_PIPELINE_PRIMITIVES_H
#define WARPGRADE_CUDA_PIPELINE_PRIMITIVES_H

#include "cuda_runtime.h"

WARPGRADE_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes,
                                              size_t zeros = 0) {
    warpgrade_copy_async(to, from, bytes, zeros);
}
WARPGRADE_INLINE void __pipeline_commit() { warpgrade_commit_copies(); }
WARPGRADE_INLINE void __pipeline_wait_prior(size_t newest) { warpgrade_wait_for_copies(newest); }

#endif
