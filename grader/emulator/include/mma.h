// Products of small matrices by a warp's tensor cores (nvcuda::wmma): of half, bfloat16 and tf32.
#ifndef WARPGRADE_MMA_H
#define WARPGRADE_MMA_H

#include "warpgrade/ptx.h"

namespace nvcuda::wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}
namespace experimental::precision {
struct u4;
struct s4;
struct b1;
}  // namespace experimental::precision

WARPGRADE_INLINE float __float_to_tf32(float value) {
    return warpgrade::ptx::as<float>(warpgrade::ptx::nearest_tf32(value));
}

// How the lanes hold a matrix, as the compiler of current GPUs has it. Lane 4 g + q has parts of
// `width` neighbours, two of which stand in a register where they have 16 bits. Part i belongs to a
// block of eight by `4 * width` elements: g counts along the one direction ("across"), q along the
// other ("along"), which is that of k in factors. A product of 8 by 32 is computed transposed.
template <class Use, int m, int n, int k, class T>
struct Held {
    static constexpr bool is_sum = std::is_same_v<Use, accumulator>;
    static constexpr bool is_tf32 = std::is_same_v<T, precision::tf32>;
    static constexpr bool is_16_bits = std::is_same_v<T, ::__half> || std::is_same_v<T, ::__nv_bfloat16>;
    static constexpr bool is_transposed = m == 8;
    static constexpr bool is_left = std::is_same_v<Use, matrix_a> != is_transposed;
    static constexpr int width = is_tf32 ? 1 : 2;
    static constexpr int count = (is_sum ? m * n : std::is_same_v<Use, matrix_a> ? m * k : k * n) / 32;
    // Factors of half have each element more than once.
    static constexpr int copies = !is_sum && std::is_same_v<T, ::__half> ? 16 / count : 1;
    static constexpr bool is_modelled =
        k == 8 ? m == 16 && n == 16 && (is_sum ? std::is_same_v<T, float> : is_tf32)
               : k == 16 && m * n == 256 && (m == 8 || m == 16 || m == 32) &&
                     (is_sum ? std::is_same_v<T, float> || std::is_same_v<T, ::__half> : is_16_bits);

    static constexpr int across(int part) {
        if (is_sum) return m == n ? part % 2 : part;
        return is_left ? part % 2 + part / 4 * 2 : part / 2;
    }
    static constexpr int along(int part) {
        if (is_sum) return m == n ? part / 2 : 0;
        return is_left ? part / 2 % 2 : part % 2;
    }
};

template <class T>
struct Stored {
    typedef T type;
};
template <>
struct Stored<precision::tf32> {
    typedef float type;
};

template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment {
   public:
    typedef Held<Use, m, n, k, T> held;
    static_assert(held::is_modelled && held::is_sum == std::is_void_v<Layout>,
                  "wmma's fragments of this size and type are not modelled");
    typedef T element_type;
    typedef typename Stored<T>::type storage_element_type;
    enum { num_elements = held::count * held::copies, num_storage_elements = num_elements };
    storage_element_type x[num_elements];

    // Registers hold anything before they are written.
    WARPGRADE_INLINE fragment() {
        for (auto& each : x) warpgrade_move_bits(&each, &warpgrade::ptx::undefined<unsigned>, sizeof each);
    }
};

template <class Use, int m, int n, int k, class T, class Layout>
WARPGRADE_INLINE void fill_fragment(fragment<Use, m, n, k, T, Layout>& f,
                                    const typename Stored<T>::type& value) {
    for (auto& each : f.x) each = value;
}

// A block of eight by eight numbers of 16 bits with rows and columns exchanged.
WARPGRADE_INLINE unsigned transposed(unsigned word) {
    const int g = warpgrade::ptx::lane() / 4, q = warpgrade::ptx::lane() % 4;
    const unsigned low = warpgrade::ptx::of_lane(word, 8 * q + g / 2);
    const unsigned high = warpgrade::ptx::of_lane(word, 8 * q + 4 + g / 2);
    return (low >> 16 * (g % 2) & 0xffffu) | (high >> 16 * (g % 2)) << 16;
}

// Part i of a matrix in memory; `is_along`: neighbours along q are neighbours there.
template <class Fragment, class Pointer>
struct Part {
    typedef typename Fragment::held held;
    static constexpr int width = held::width;
    Pointer* first;
    size_t ld;
    bool is_along;
    int across, along;

    WARPGRADE_INLINE Part(Pointer* p, unsigned ldm, bool is_along, int i) : ld(ldm), is_along(is_along) {
        const int g = warpgrade::ptx::lane() / 4, q = warpgrade::ptx::lane() % 4;
        // Blocks of 16 bits that lie the other way are read as they lie, and exchanged after that.
        const bool is_swapped = !is_along && sizeof(Pointer) == 2;
        across = 8 * held::across(i) + (is_swapped ? width * q : g);
        along = 4 * width * held::along(i) + (is_swapped ? g : width * q);
        // Rows have to be aligned to 16 bytes; others become odd, so that they are reported.
        auto address = reinterpret_cast<size_t>(p);
        address |= (address | ld * sizeof(Pointer)) % 16 != 0;
        __asm__("" : "+r"(address));  // with a known alignment, accesses wouldn't be checked for theirs
        first = reinterpret_cast<Pointer*>(address);
    }
    WARPGRADE_INLINE Pointer* at(int j) const {
        return first + (is_along ? across * ld + along + j : (along + j) * ld + across);
    }
};

template <class Fragment, class T>
WARPGRADE_INLINE void load_parts(Fragment& f, const T* p, unsigned ldm, bool is_along) {
    namespace ptx = warpgrade::ptx;
    typedef typename Fragment::held held;
    ptx::of_lane(0, 0);  // all lanes take part
    for (int i = 0; i < held::count / held::width; ++i) {
        const Part<Fragment, const T> part(p, ldm, is_along, i);
        T* x = f.x + held::width * i;
        if constexpr (sizeof(T) == 2) {
            unsigned word = ptx::load<unsigned, 1>(part.at(0))[0];
            if (!is_along) word = transposed(word);
            warpgrade_move_bits(x, &word, sizeof word);
        } else if (held::width == 2 && is_along) {
            const auto values = ptx::load<T, 2>(part.at(0));
            x[0] = values[0], x[1] = values[1];
        } else {
            for (int j = 0; j < held::width; ++j) x[j] = *part.at(j);
        }
    }
    for (int i = held::count; i < f.num_elements; ++i) f.x[i] = f.x[i - held::count];
}

template <class Use, int m, int n, int k, class T, class Layout>
WARPGRADE_INLINE void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& f,
                                       const typename Stored<T>::type* p, unsigned ldm) {
    static_assert(!std::is_void_v<Layout>, "an accumulator is loaded with its layout");
    load_parts(f, p, ldm, std::is_same_v<Use, matrix_a> == std::is_same_v<Layout, row_major>);
}
template <int m, int n, int k, class T>
WARPGRADE_INLINE void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const T* p, unsigned ldm,
                                       layout_t layout) {
    load_parts(f, p, ldm, (m != 8) == (layout == mem_row_major));
}

template <int m, int n, int k, class T>
WARPGRADE_INLINE void store_matrix_sync(T* p, const fragment<accumulator, m, n, k, T>& f, unsigned ldm,
                                        layout_t layout) {
    namespace ptx = warpgrade::ptx;
    const bool is_along = (m != 8) == (layout == mem_row_major);
    ptx::of_lane(0, 0);
    for (int i = 0; i < f.num_elements / 2; ++i) {
        const Part<fragment<accumulator, m, n, k, T>, T> part(p, ldm, is_along, i);
        const T* x = f.x + 2 * i;
        if constexpr (sizeof(T) == 2) {
            unsigned word;
            warpgrade_move_bits(&word, x, sizeof word);
            ptx::store<unsigned, 1>(part.at(0), is_along ? word : transposed(word));
        } else if (is_along) {
            ptx::store<T, 2>(part.at(0), x[0], x[1]);
        } else {
            *part.at(0) = x[0], *part.at(1) = x[1];
        }
    }
}

// By two instructions mma, whose left factor has 16 rows and whose right one has 8 columns.
template <int m, int n, int k, class D, class C, class T, class LayoutA, class LayoutB>
WARPGRADE_INLINE void mma_sync(fragment<accumulator, m, n, k, D>& d,
                               const fragment<matrix_a, m, n, k, T, LayoutA>& a,
                               const fragment<matrix_b, m, n, k, T, LayoutB>& b,
                               const fragment<accumulator, m, n, k, C>& c) {
    constexpr bool is_tf32 = std::is_same_v<T, precision::tf32>;
    typedef std::conditional_t<is_tf32, warpgrade::ptx::Tf32, T> Kind;
    const void* left = m == 8 ? static_cast<const void*>(b.x) : a.x;
    const void* right = m == 8 ? static_cast<const void*>(a.x) : b.x;
    for (int half = 0; half < 2; ++half) {
        unsigned given[6];
        float sums[4];
        warpgrade_move_bits(given, static_cast<const unsigned*>(left) + (m == n ? 0 : 4 * half), 16);
        warpgrade_move_bits(given + 4, static_cast<const unsigned*>(right) + (m == n ? 2 * half : 0), 8);
        for (int i = 0; i < 4; ++i) sums[i] = static_cast<float>(c.x[4 * half + i]);
        warpgrade::ptx::multiply<Kind>(sums, given);
        for (int i = 0; i < 4; ++i) d.x[4 * half + i] = D(sums[i]);
    }
}

}  // namespace nvcuda::wmma

#endif
