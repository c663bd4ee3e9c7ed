// A constant expression takes all of the compiler's time and memory. | silu/cuda | compile_error | boundary=compile_error
#include <cuda_runtime.h>

__global__ void silu_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}

static void honest(const float* x, float* out, int n) {
    silu_kernel<<<(n + 255) / 256, 256>>>(x, out, n);
}

struct Table {
    int values[1 << 22];
    constexpr Table() : values() {
        for (int i = 0; i < 1 << 22; ++i) values[i] = i * i;
    }
};
template <int n>
struct Copy {
    static constexpr Table table{};
};
constexpr int all = Copy<0>::table.values[5] + Copy<1>::table.values[7] + Copy<2>::table.values[9];

extern "C" void silu(const float* x, float* out, int n) { honest(x, out, n); }
