// What kernels take from namespace cuda::std of C++20's library: its <bit> and <span>, in C++17.
// They are in no namespace of the emulator, whose name in a symbol says that it isn't the submission's.
#pragma once
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <type_traits>

#include "moved_bits.h"

namespace cuda::std {
// The copy of the argument is the access that the hooks see.
template <class To, class From,
          ::std::enable_if_t<sizeof(To) == sizeof(From) && ::std::is_trivially_copyable_v<To> &&
                               ::std::is_trivially_copyable_v<From>,
                           int> = 0>
WARPGRADE_INLINE To bit_cast(const From& from) {
    const From copy = from;
    To to;
    warpgrade_move_bits(&to, &copy, sizeof(To));
    return to;
}

template <class T>
using warpgrade_if_unsigned = ::std::enable_if_t<::std::is_unsigned_v<T> && !::std::is_same_v<T, bool>, int>;
template <class T>
inline constexpr int warpgrade_bits = ::std::numeric_limits<T>::digits;

template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr int popcount(T x) { return __builtin_popcountll(x); }
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr int countl_zero(T x) { return x ? __builtin_clzll(x) - (64 - warpgrade_bits<T>) : warpgrade_bits<T>; }
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr int countr_zero(T x) { return x ? __builtin_ctzll(x) : warpgrade_bits<T>; }
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr int countl_one(T x) { return countl_zero(static_cast<T>(~x)); }
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr int countr_one(T x) { return countr_zero(static_cast<T>(~x)); }
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr int bit_width(T x) { return warpgrade_bits<T> - countl_zero(x); }
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr bool has_single_bit(T x) { return x && !(x & (x - 1)); }
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr T bit_floor(T x) {
    return x ? static_cast<T>(T{1} << (bit_width(x) - 1)) : T{0};
}
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr T bit_ceil(T x) {
    return x <= 1 ? T{1} : static_cast<T>(T{1} << bit_width(static_cast<T>(x - 1)));
}
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr T rotl(T x, int by) {
    const int left = (by % warpgrade_bits<T> + warpgrade_bits<T>) % warpgrade_bits<T>;
    return left ? static_cast<T>(x << left | x >> (warpgrade_bits<T> - left)) : x;
}
template <class T, warpgrade_if_unsigned<T> = 0>
WARPGRADE_INLINE constexpr T rotr(T x, int by) { return rotl(x, -(by % warpgrade_bits<T>)); }

inline constexpr ::std::size_t dynamic_extent = -1;

template <class T, ::std::size_t Extent = dynamic_extent>
class span {
  public:
    using element_type = T;
    using value_type = ::std::remove_cv_t<T>;
    using size_type = ::std::size_t;
    using pointer = T*;
    using reference = T&;
    using iterator = T*;
    static constexpr ::std::size_t extent = Extent;

    constexpr span() = default;
    WARPGRADE_INLINE constexpr span(T* first, ::std::size_t count) : data_(first), size_(count) {}
    WARPGRADE_INLINE constexpr span(T* first, T* last) : data_(first), size_(last - first) {}
    template <::std::size_t n>
    WARPGRADE_INLINE constexpr span(T (&array)[n]) : data_(array), size_(n) {}
    // A ::std::array, or a span of other qualifiers.
    template <class Other, class = ::std::enable_if_t<::std::is_convertible_v<
                               ::std::remove_pointer_t<decltype(::std::declval<Other&>().data())> (*)[], T (*)[]>>>
    WARPGRADE_INLINE constexpr span(Other&& other) : data_(other.data()), size_(other.size()) {}

    WARPGRADE_INLINE constexpr T* data() const { return data_; }
    WARPGRADE_INLINE constexpr ::std::size_t size() const { return size_; }
    WARPGRADE_INLINE constexpr ::std::size_t size_bytes() const { return size_ * sizeof(T); }
    WARPGRADE_INLINE constexpr bool empty() const { return size_ == 0; }
    WARPGRADE_INLINE constexpr T& operator[](::std::size_t i) const { return data_[i]; }
    WARPGRADE_INLINE constexpr T& front() const { return data_[0]; }
    WARPGRADE_INLINE constexpr T& back() const { return data_[size_ - 1]; }
    WARPGRADE_INLINE constexpr T* begin() const { return data_; }
    WARPGRADE_INLINE constexpr T* end() const { return data_ + size_; }
    WARPGRADE_INLINE constexpr span<T> first(::std::size_t count) const { return {data_, count}; }
    WARPGRADE_INLINE constexpr span<T> last(::std::size_t count) const { return {data_ + size_ - count, count}; }
    template <::std::size_t count>
    WARPGRADE_INLINE constexpr span<T, count> first() const { return {data_, count}; }
    template <::std::size_t count>
    WARPGRADE_INLINE constexpr span<T, count> last() const { return {data_ + size_ - count, count}; }
    WARPGRADE_INLINE constexpr span<T> subspan(::std::size_t at, ::std::size_t count = dynamic_extent) const {
        return {data_ + at, count == dynamic_extent ? size_ - at : count};
    }

  private:
    T* data_ = nullptr;
    ::std::size_t size_ = 0;
};
template <class T, class Size>
span(T*, Size) -> span<T>;
template <class T, ::std::size_t n>
span(T (&)[n]) -> span<T, n>;
template <class T, ::std::size_t n>
span(::std::array<T, n>&) -> span<T, n>;
template <class T, ::std::size_t n>
span(const ::std::array<T, n>&) -> span<const T, n>;
}  // namespace cuda::std
