// The names of namespace cuda::std that a kernel takes from the C++ library; unsupported.py reads them here.
#pragma once
#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../cuda_runtime.h"
#include "standard_20.h"

namespace cuda::std {
using ::std::array, ::std::get, ::std::initializer_list, ::std::make_optional, ::std::nullopt,
    ::std::nullopt_t, ::std::numeric_limits, ::std::optional;
// utility, tuple
using ::std::apply, ::std::declval, ::std::exchange, ::std::forward, ::std::index_sequence,
    ::std::index_sequence_for, ::std::integer_sequence, ::std::make_index_sequence,
    ::std::make_integer_sequence, ::std::make_pair, ::std::make_tuple, ::std::max, ::std::min,
    ::std::move, ::std::pair, ::std::swap, ::std::tie, ::std::tuple, ::std::tuple_element_t,
    ::std::tuple_size_v;
// type_traits
using ::std::add_const_t, ::std::bool_constant, ::std::common_type_t, ::std::conditional,
    ::std::conditional_t, ::std::decay_t, ::std::enable_if, ::std::enable_if_t, ::std::false_type,
    ::std::integral_constant, ::std::invoke_result_t, ::std::is_arithmetic_v, ::std::is_const_v,
    ::std::is_convertible_v, ::std::is_floating_point_v, ::std::is_integral_v,
    ::std::is_invocable_v, ::std::is_pointer_v, ::std::is_same, ::std::is_same_v,
    ::std::is_signed_v, ::std::is_trivially_copyable_v, ::std::is_unsigned_v, ::std::is_void_v,
    ::std::make_signed_t, ::std::make_unsigned_t, ::std::remove_const_t, ::std::remove_cv_t,
    ::std::remove_pointer_t, ::std::remove_reference_t, ::std::true_type, ::std::underlying_type_t,
    ::std::void_t;
// functional
using ::std::bit_and, ::std::bit_or, ::std::divides, ::std::equal_to, ::std::greater,
    ::std::greater_equal, ::std::invoke, ::std::less, ::std::less_equal, ::std::logical_and,
    ::std::logical_or, ::std::minus, ::std::multiplies, ::std::negate, ::std::plus;
// cstddef, cstdint
using ::std::byte, ::std::int16_t, ::std::int32_t, ::std::int64_t, ::std::int8_t, ::std::intptr_t,
    ::std::nullptr_t, ::std::ptrdiff_t, ::std::size_t, ::std::uint16_t, ::std::uint32_t,
    ::std::uint64_t, ::std::uint8_t, ::std::uintptr_t;
// cmath
using ::std::abs, ::std::cbrt, ::std::ceil, ::std::copysign, ::std::cos, ::std::erf, ::std::exp,
    ::std::exp2, ::std::expm1, ::std::fabs, ::std::floor, ::std::fma, ::std::fmax, ::std::fmin,
    ::std::fmod, ::std::hypot, ::std::isfinite, ::std::isinf, ::std::isnan, ::std::log,
    ::std::log1p, ::std::log2, ::std::pow, ::std::round, ::std::signbit, ::std::sin, ::std::sqrt,
    ::std::tanh, ::std::trunc;
}  // namespace cuda::std
