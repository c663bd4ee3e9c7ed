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

// The alignment that libcu++ counts on: that of the type, or of an aligned_size_t.
template <class T>
constexpr size_t type_alignment = alignof(T);
template <>
inline constexpr size_t type_alignment<void> = 16;
template <class T, class Bytes>
constexpr size_t copy_alignment = type_alignment<T>;
template <class T, size_t alignment>
constexpr size_t copy_alignment<T, ::cuda::aligned_size_t<alignment>> =
    alignment > type_alignment<T> ? alignment : type_alignment<T>;

// Starts the part of thread number `rank` of `threads`, in pieces of at most `most` bytes. Bytes that
// aren't aligned to 4, and those from or to other memory, are copied at once, as by CUDA's own
// functions.
WARPGRADE_INLINE void copy_part_async(size_t rank, size_t threads, void* to, const void* from,
                                      size_t bytes, size_t most = 16) {
    const size_t together = (size_t)to | (size_t)from | most;
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
