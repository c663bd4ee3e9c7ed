// Its templates double at each step, so that compiling doesn't end. | silu/cuda | compile_error | boundary=compile_error
#include <cuda_runtime.h>

__global__ void silu_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}

static void honest(const float* x, float* out, int n) {
    silu_kernel<<<(n + 255) / 256, 256>>>(x, out, n);
}

template <int depth, class... Types>
struct Tree {
    using Left = Tree<depth - 1, Types..., int>;
    using Right = Tree<depth - 1, Types..., float>;
    static constexpr int size = Left::size + Right::size;
};
template <class... Types>
struct Tree<0, Types...> {
    static constexpr int size = sizeof...(Types);
};
static_assert(Tree<24>::size > 0);

extern "C" void silu(const float* x, float* out, int n) { honest(x, out, n); }
