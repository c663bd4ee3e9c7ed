// The instructions of inline assembly (PTX) that ptx.py translates.
#pragma once
#include "../cuda_bf16.h"
#include "../cuda_fp16.h"

extern "C" {
void* warpgrade_shared_at(unsigned offset);
void* warpgrade_global_at(unsigned long long address);
size_t warpgrade_shared_offset(const void* p);
}

// An address in shared memory as PTX has it: an offset.
WARPGRADE_INLINE size_t __cvta_generic_to_shared(const void* p) {
    return warpgrade_shared_offset(p);
}
WARPGRADE_INLINE size_t __cvta_generic_to_global(const void* p) {
    return reinterpret_cast<size_t>(p);
}

namespace warpgrade::ptx {

// A register's value as another type: its bits, where one of the two is a floating-point number.
template <class To, class From>
WARPGRADE_INLINE To as(From from) {
    if constexpr (std::is_pointer_v<From>) {
        return static_cast<To>(reinterpret_cast<size_t>(from));
    } else if constexpr (std::is_pointer_v<To>) {
        return reinterpret_cast<To>(as<size_t>(from));
    } else if constexpr (std::is_arithmetic_v<From> &&
                         std::is_floating_point_v<From> == std::is_floating_point_v<To>) {
        return static_cast<To>(from);
    } else {
        static_assert(sizeof(To) == sizeof(From), "registers of other sizes are not modelled");
        To to;
        warpgrade_move_bits(&to, &from, sizeof to);
        return to;
    }
}
// The constraint is that of the operand's type ('n': a constant).
template <char constraint, class T>
WARPGRADE_INLINE void check(const T&) {
    constexpr bool is_float = constraint == 'f' || constraint == 'd';
    constexpr size_t size = constraint == 'h' ? 2 : constraint == 'r' || constraint == 'f' ? 4 : 8;
    static_assert(constraint == 'n' || (sizeof(T) == size && is_float == std::is_floating_point_v<T>),
                  "operands that don't fit their constraints are not modelled");
}
template <class To, class From>
WARPGRADE_INLINE void put(To& to, From from) {
    to = as<To>(from);
}

WARPGRADE_INLINE unsigned lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31;
}
WARPGRADE_INLINE void* generic_at(unsigned long long address) {
    return reinterpret_cast<void*>(address);
}
WARPGRADE_INLINE void* global_at(unsigned long long address) { return warpgrade_global_at(address); }
WARPGRADE_INLINE void* shared_at(unsigned offset) { return warpgrade_shared_at(offset); }

template <class T, int n>
struct VectorOf {
    typedef T type __attribute__((vector_size(n * sizeof(T))));
};
template <class T>
struct VectorOf<T, 1> {
    struct type {
        T value;
        WARPGRADE_INLINE T operator[](int) const { return value; }
    };
};
// What a register holds before anything is written to it: a value that no program gets by chance.
template <class T>
constexpr T undefined = static_cast<T>(0xfafafafafafafafa);
template <>
inline constexpr bool undefined<bool> = true;
template <class T>
WARPGRADE_INLINE std::remove_volatile_t<T> undefined_as(T&) {
    if constexpr (std::is_pointer_v<T>) return nullptr;
    else return undefined<std::remove_volatile_t<T>>;
}

// The load is made even where nothing uses its value.
template <class T, int n>
WARPGRADE_INLINE typename VectorOf<T, n>::type load(const void* p) {
    if constexpr (n == 1) {
        const T value = *static_cast<const T*>(p);
        __asm__ volatile("" ::"X"(value));
        return {value};
    } else {
        const auto value = *static_cast<const typename VectorOf<T, n>::type*>(p);
        __asm__ volatile("" ::"X"(value));
        return value;
    }
}
template <class T, int n>
WARPGRADE_INLINE auto load_read_only(const void* p) {
    warpgrade_read_only(p, n * sizeof(T));
    return load<T, n>(p);
}
template <class T, int n, class... Values>
WARPGRADE_INLINE void store(void* p, Values... values) {
    if constexpr (n == 1) *static_cast<T*>(p) = (values, ...);
    else *static_cast<typename VectorOf<T, n>::type*>(p) = typename VectorOf<T, n>::type{values...};
}

template <class T>
WARPGRADE_INLINE T least(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return ::fmin(a, b);
    else return b < a ? b : a;
}
template <class T>
WARPGRADE_INLINE T most(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return ::fmax(a, b);
    else return a < b ? b : a;
}
template <class T>
WARPGRADE_INLINE T magnitude(T a) {
    return a <= 0 ? 0 - a : a;
}
// Of numbers: a comparison with a NaN is false.
template <class T>
WARPGRADE_INLINE bool differ(T a, T b) {
    return a < b || a > b;
}
template <class T>
WARPGRADE_INLINE T fused(T a, T b, T c) {
    return std::fma(a, b, c);
}
// Shifts by more than the width give 0, or the sign.
template <class T>
WARPGRADE_INLINE T shifted_left(T a, unsigned by) {
    return by < 8 * sizeof(T) ? static_cast<T>(a << by) : 0;
}
template <class T>
WARPGRADE_INLINE T shifted_right(T a, unsigned by) {
    return by < 8 * sizeof(T) ? a >> by : a < 0 ? -1 : 0;
}

// Two numbers of 16 bits as one word.
template <class T>
WARPGRADE_INLINE unsigned pair(float high, float low) {
    const T values[2] = {T(low), T(high)};
    unsigned word;
    warpgrade_move_bits(&word, values, sizeof word);
    return word;
}
WARPGRADE_INLINE unsigned bit_field(unsigned a, unsigned position, unsigned length) {
    position &= 255, length &= 255;
    const unsigned rest = position < 32 ? a >> position : 0;
    return length < 32 ? rest & ((1u << length) - 1) : rest;
}
// `b` with the lowest `length` bits of `a` at a position.
WARPGRADE_INLINE unsigned with_bit_field(unsigned a, unsigned b, unsigned position, unsigned length) {
    const unsigned place = shifted_left(bit_field(~0u, 0, length), position & 255);
    return (b & ~place) | (shifted_left(a, position & 255) & place);
}
// Each bit of the table is the result for three bits: those of a, b and c are its index.
WARPGRADE_INLINE unsigned looked_up(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned result = 0;
    for (unsigned i = 0; i < 8; i++) {
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
    return result;
}
WARPGRADE_INLINE int leading_zeros(unsigned a) { return a ? __builtin_clz(a) : 32; }
WARPGRADE_INLINE unsigned reversed_bits(unsigned a) { return __brev(a); }
WARPGRADE_INLINE unsigned ballot(unsigned mask, bool p) { return __ballot_sync(mask, p); }
WARPGRADE_INLINE bool any(unsigned mask, bool p) { return __any_sync(mask, p); }
WARPGRADE_INLINE bool all(unsigned mask, bool p) { return __all_sync(mask, p); }

template <class T>
WARPGRADE_INLINE T of_lane(T value, int lane) {
    return exchange(warpgrade_shuffle, 0xffffffffu, value, lane, 32);
}

// The address of another lane's row. One that isn't aligned to 16 bytes becomes odd, so that its loads
// are reported as misaligned.
WARPGRADE_INLINE unsigned long long row_of_lane(const void* row, int lane) {
    const auto from = of_lane(reinterpret_cast<unsigned long long>(row), lane);
    return from % 16 ? from | 1 : from;
}

// ldmatrix: `row` is the lane's row of eight 16-bit elements; the part of matrix `number`.
template <bool is_transposed>
WARPGRADE_INLINE unsigned matrix_part(const void* row, int number) {
    const int first = 8 * number, mine = lane() / 4, pair = lane() % 4 * 2;
    if constexpr (!is_transposed) {
        const auto from = row_of_lane(row, first + mine);
        return *reinterpret_cast<const unsigned*>(from + 2 * pair);
    }
    const auto low = row_of_lane(row, first + pair);
    const auto high = row_of_lane(row, first + pair + 1);
    return reinterpret_cast<const unsigned short*>(low)[mine] |
           static_cast<unsigned>(reinterpret_cast<const unsigned short*>(high)[mine]) << 16;
}

template <class T>
WARPGRADE_INLINE float half_of(unsigned word, int which) {
    const auto bits = static_cast<unsigned short>(word >> 16 * which);
    T value;
    warpgrade_move_bits(&value, &bits, sizeof value);
    return static_cast<float>(value);
}

// A number of 32 bits of which the tensor cores read the upper 19.
struct Tf32 {};
// To the nearest of these; of two that are as near, the greater one by magnitude.
WARPGRADE_INLINE unsigned nearest_tf32(float value) {
    const unsigned bits = as<unsigned>(value);
    return value != value ? bits : (bits + 0x1000u) & ~0x1fffu;
}
// Element k of two words: two of each, or one.
template <class T>
WARPGRADE_INLINE float element_of(unsigned long long words, int k) {
    if constexpr (std::is_same_v<T, Tf32>) return as<float>(static_cast<unsigned>(words >> 32 * k) & ~0x1fffu);
    else return half_of<T>(static_cast<unsigned>(words >> 32 * (k / 2)), k % 2);
}

// mma.m16n8k16: lane 4 r + q has two neighbouring elements of rows r and r + 8 of the left matrix
// (words 0 to 3, the columns from 2 q and from 2 q + 8) and of column r of the right one (4 and 5),
// and gets two neighbouring sums of both rows. mma.m16n8k8 of tf32: one element of columns q and q + 4
// in place of two neighbours.
template <class T>
WARPGRADE_UNSEEN __attribute__((noinline)) void multiply(float* sums, const unsigned* given) {
    typedef unsigned long long Pair;
    const int r = lane() / 4, q = lane() % 4;
    const Pair upper = given[0] | Pair{given[2]} << 32, lower = given[1] | Pair{given[3]} << 32;
    const Pair right = given[4] | Pair{given[5]} << 32;
    for (int from = 0; from < 4; ++from) {
        const Pair rows[2] = {of_lane(upper, 4 * r + from), of_lane(lower, 4 * r + from)};
        const Pair columns[2] = {of_lane(right, 8 * q + from), of_lane(right, 8 * q + 4 + from)};
        for (int sum = 0; sum < 4; ++sum) {
            for (int k = 0; k < (std::is_same_v<T, Tf32> ? 2 : 4); ++k)
                sums[sum] += element_of<T>(rows[sum / 2], k) * element_of<T>(columns[sum % 2], k);
        }
    }
}

}  // namespace warpgrade::ptx
