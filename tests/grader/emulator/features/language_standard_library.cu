// Language: cuda::std of kernels: array, tuple, pair, optional, limits, functional, type_traits, utility, cmath; ceil_div and round_up of cuda
#include <cuda/cmath>
#include <cuda/std/array>
#include <cuda/std/cmath>
#include <cuda/std/cstdint>
#include <cuda/std/functional>
#include <cuda/std/limits>
#include <cuda/std/optional>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda_runtime.h>

namespace cs = cuda::std;

template <class T, cs::size_t... I>
__device__ T sum(const cs::array<T, sizeof...(I)>& values, cs::index_sequence<I...>) {
    return (values[I] + ...);
}

template <class T, int count>
__global__ void kernel(cs::int32_t* output, int n) {
    static_assert(cs::is_same_v<cs::remove_cv_t<const T>, float> && cs::is_floating_point_v<T>);
    __shared__ cs::array<T, 64> shared;
    const int t = threadIdx.x;
    shared[t] = static_cast<T>(t);
    __syncthreads();
    cs::array<T, count> mine{};
    for (auto& each : mine) each = cs::max(shared[63 - t], cs::numeric_limits<T>::lowest());
    const auto [number, text] = cs::make_tuple(sum(mine, cs::make_index_sequence<count>{}), cs::uint8_t{7});
    cs::pair<int, int> ends{1, 2};
    cs::swap(ends.first, ends.second);
    cs::optional<int> nothing, something = 3;
    bool right = number == count * (63 - t) && text == 7 && ends.first == 2 && !nothing && *something == 3;
    right = right && cs::plus<int>{}(2, 3) == 5 && cs::exp(T{0}) == 1 && cs::fma(T{2}, T{3}, T{1}) == 7;
    right = right && cs::isinf(cs::numeric_limits<T>::infinity()) && cuda::std::sqrt(T{4}) == 2;
    if (t < n) output[t] = right;
}

extern "C" void feature(int* output, int n) {
    if (cuda::ceil_div(65, 64) != 2 || cuda::round_up(65, 64) != 128 || cuda::ceil_div(64, 64) != 1) return;
    kernel<float, 4><<<cuda::ceil_div(n, 64), 64>>>(output, n);
}
