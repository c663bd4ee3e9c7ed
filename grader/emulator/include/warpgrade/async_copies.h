// What <cooperative_groups/memcpy_async.h> and <cuda/pipeline> share.
#pragma once
#include "../cuda_runtime.h"

namespace cuda {

// A number of bytes of which both addresses are multiples of `alignment`.
template <size_t alignment>
struct aligned_size_t {
    static constexpr size_t align = alignment;
    size_t value;
    WARPGRADE_INLINE explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
    WARPGRADE_INLINE constexpr operator size_t() const { return value; }
};

}  // namespace cuda

namespace warpgrade {

// Starts the part of thread number `rank` of `threads`. Bytes that aren't aligned to 4, and those
// from or to other memory, are copied at once, as by CUDA's own functions.
WARPGRADE_INLINE void copy_part_async(size_t rank, size_t threads, void* to, const void* from,
                                      size_t bytes) {
    const size_t together = (size_t)to | (size_t)from;
    const size_t unit = together % 4 ? 1 : together % 8 ? 4 : together % 16 ? 8 : 16;
    const bool is_async = unit >= 4 && warpgrade_is_copied_async(to, from);
    size_t done = 0;
    for (size_t piece = is_async ? unit : 0; piece >= 4; piece /= 2) {
        const size_t count = (bytes - done) / piece;
        for (size_t i = rank; i < count; i += threads)
            warpgrade_copy_async((char*)to + done + i * piece, (const char*)from + done + i * piece,
                                 piece, 0);
        done += count * piece;
    }
    for (size_t at = done + rank * unit; at < bytes; at += threads * unit)
        memcpy((char*)to + at, (const char*)from + at, bytes - at < unit ? bytes - at : unit);
}

}  // namespace warpgrade
