// Memory: a cuda::pipeline that the threads of a block share: all of them, or producers and consumers
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

constexpr int stages = 2, batches = 5;

__global__ void unified(const int* in, int* out) {
    __shared__ __align__(16) int s[stages][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const int t = threadIdx.x;
    bool good = true;
    for (int batch = 0, next = 0; batch < batches; ++batch) {
        for (; next < batches && next < batch + stages; ++next) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[next % stages], in + 64 * next,
                               cuda::aligned_size_t<16>(64 * sizeof(int)), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        good = good && s[batch % stages][63 - t] == 64 * batch + 63 - t;
        pipe.consumer_release();
    }
    out[t] = good;
}

template <bool by_role>
__global__ void partitioned(const int* in, int* out) {
    __shared__ __align__(16) int s[stages][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    __shared__ int sum[32];
    auto block = cg::this_thread_block();
    const int t = threadIdx.x;
    const bool produces = t < 32;
    auto role = produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = by_role ? cuda::make_pipeline(block, &state, role)
                        : cuda::make_pipeline(block, &state, 32);
    int total = 0;
    for (int batch = 0; batch < batches; ++batch) {
        int* stage = s[batch % stages];
        if (produces) {
            pipe.producer_acquire();
            cuda::memcpy_async(stage + t, in + 64 * batch + t, sizeof(int), pipe);
            stage[32 + t] = 1;
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            total += stage[63 - t] + stage[t];
            pipe.consumer_release();
        }
    }
    if (!produces) sum[t - 32] = total;
    __syncthreads();
    const int own = 31 - t % 32;
    out[t] = out[t] && sum[t % 32] == 5 * own + 64 * 10 + 5;
}

extern "C" void feature(int* output, int n) {
    int numbers[64 * batches], *in;
    for (int i = 0; i < 64 * batches; ++i) numbers[i] = i;
    cudaMalloc(&in, sizeof numbers);
    cudaMemcpy(in, numbers, sizeof numbers, cudaMemcpyHostToDevice);
    unified<<<1, n>>>(in, output);
    partitioned<false><<<1, n>>>(in, output);
    partitioned<true><<<1, n>>>(in, output);
    cudaFree(in);
}
