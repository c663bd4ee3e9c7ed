// Rounding to 16-bit floating-point types, exactly as in IEEE 754: to nearest, ties to even.
//
// An operation on 16-bit numbers is done in float and rounded once more. That is right for + - * /
// and the square root, since float has more than twice the digits and two. For fma it isn't, so the
// sum there is rounded to odd first.
#ifndef WARPGRADE_SMALL_FLOAT_H
#define WARPGRADE_SMALL_FLOAT_H

#include <cmath>

#include "intrinsics.h"

namespace warpgrade {

// Hooks don't see these, and their basic blocks don't count as the kernel's.
#define WARPGRADE_OUTSIDE WARPGRADE_UNSEEN __attribute__((noinline)) inline

WARPGRADE_OUTSIDE unsigned short half_bits(float value) {
    unsigned bits = bits_as<unsigned>(value);
    const unsigned sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return 0x7fff;           // NaN
    if (bits >= 0x477ff000u) return sign | 0x7c00u;  // rounds to infinity
    if (bits < 0x38800000u) {                        // subnormal: let float round
        const float magic = 0.5f;
        return sign | (bits_as<unsigned>(bits_as<float>(bits) + magic) - bits_as<unsigned>(magic));
    }
    return sign | (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13;
}
WARPGRADE_OUTSIDE float half_value(unsigned short half) {
    const unsigned sign = (half & 0x8000u) << 16, exponent = half & 0x7c00u;
    unsigned bits = (half & 0x7fffu) << 13;
    if (exponent == 0x7c00u)
        bits |= 0x7f800000u;
    else if (exponent)
        bits += 0x38000000u;
    else
        bits = bits_as<unsigned>((half & 0x3ffu) * 0x1p-24f);
    return bits_as<float>(sign | bits);
}
WARPGRADE_OUTSIDE unsigned short bfloat16_bits(float value) {
    const unsigned bits = bits_as<unsigned>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
WARPGRADE_INLINE float bfloat16_value(unsigned short bits) {
    return bits_as<float>((unsigned)bits << 16);
}

// The nearest float, but if that isn't the value: the neighbour whose last bit is 1.
WARPGRADE_OUTSIDE float float_to_odd(double value) {
    const float nearest = (float)value;
    if ((double)nearest == value || value != value) return nearest;
    unsigned bits = bits_as<unsigned>(nearest);
    if (bits & 1) return nearest;
    const bool too_large = std::fabs((double)nearest) > std::fabs(value);
    return bits_as<float>(too_large ? bits - 1 : bits + 1);
}
// a * b + c to odd. The product of two 16-bit numbers is exact in double.
WARPGRADE_OUTSIDE float fma_to_odd(float a, float b, float c) {
    const double product = (double)a * b, addend = c, sum = product + addend;
    if (!(std::fabs(sum) <= 0x1p1000)) return (float)sum;  // infinite or not a number
    const double part = sum - product;
    const double error = (product - (sum - part)) + (addend - part);
    if (error == 0.0 || bits_as<unsigned long long>(sum) & 1) return float_to_odd(sum);
    return float_to_odd(std::nextafter(sum, error > 0 ? INFINITY : -INFINITY));
}

// The neighbours in bits that rounding in a direction needs, from the nearest.
template <class T>
WARPGRADE_OUTSIDE T directed(double value, T nearest, int mode) {
    const double given = (double)(float)nearest;
    if (given == value || value != value) return nearest;
    const bool above = given > value, negative = value < 0;
    unsigned short bits = bits_as<unsigned short>(nearest);
    const bool toward_zero = negative ? !above : above;  // which way the neighbour lies
    const bool wrong = mode == to_zero ? toward_zero : mode == up ? !above : above;
    if (!wrong) return nearest;
    if (mode == to_zero || toward_zero)
        bits -= 1;
    else
        bits += 1;
    return bits_as<T>(bits);
}

}  // namespace warpgrade

#endif
