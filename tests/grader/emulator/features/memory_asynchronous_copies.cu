// Memory: asynchronous copies (cp.async): __pipeline_memcpy_async, memcpy_async of groups, and with a cuda::pipeline of each thread
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void primitives(const int* in, int* out) {
    __shared__ __align__(16) int s[2][64];
    const int t = threadIdx.x;
    // Two stages: the second one is under way while the first one is used.
    __pipeline_memcpy_async(&s[0][t], in + t, 4);
    __pipeline_commit();
    if (t < 16) __pipeline_memcpy_async(&s[1][4 * t], in + 64 + 4 * t, 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const int first = s[0][63 - t];
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = first == 63 - t && s[1][63 - t] == 127 - t;
    __syncthreads();
    // The last bytes are zeros, and nothing is read for them.
    if (t < 32) __pipeline_memcpy_async(&s[0][2 * t], in + 2 * t, 8, t == 31 ? 8 : t % 2 * 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    const int expected = t / 2 == 31 || (t / 2 % 2 && t % 2) ? 0 : t;
    out[t] = out[t] && s[0][t] == expected;
}

__global__ void groups(const int* in, int* out) {
    __shared__ __align__(16) int s[3][64];
    const int t = threadIdx.x;
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, s[0], in, 64 * sizeof(int));
    cg::memcpy_async(block, s[1] + 1, in + 65, 63 * sizeof(int));
    cg::wait_prior<1>(block);
    bool good = s[0][63 - t] == 63 - t;
    cg::wait(block);
    good = good && (t == 63 || s[1][63 - t] == 127 - t);
    auto warp = cg::tiled_partition<32>(block);
    const int base = t / 32 * 32;
    cg::memcpy_async(warp, s[2] + base, in + base, cuda::aligned_size_t<16>(32 * sizeof(int)));
    cg::wait(warp);
    good = good && s[2][base + 31 - t % 32] == base + 31 - t % 32;
    char* bytes = reinterpret_cast<char*>(s[0]);
    block.sync();
    cg::memcpy_async(block, bytes + 1, 200, reinterpret_cast<const char*>(in) + 1, 7);
    cg::wait(block);
    out[t] = out[t] && good && bytes[4] == 1;
}

__global__ void pipelines(const int* in, int* out) {
    __shared__ __align__(16) int s[2][64];
    const int t = threadIdx.x;
    auto pipe = cuda::make_pipeline();
    bool good = true;
    pipe.producer_acquire();
    cuda::memcpy_async(&s[0][t], in + t, sizeof(int), pipe);
    pipe.producer_commit();
    for (int stage = 1; stage < 4; ++stage) {
        pipe.producer_acquire();
        cuda::memcpy_async(cg::this_thread_block(), s[stage % 2], in + 64 * (stage % 2),
                           cuda::aligned_size_t<16>(64 * sizeof(int)), pipe);
        pipe.producer_commit();
        if (stage % 2) {
            pipe.consumer_wait();
        } else {
            cuda::pipeline_consumer_wait_prior<1>(pipe);
        }
        __syncthreads();
        const int before = (stage - 1) % 2;
        good = good && s[before][63 - t] == 64 * before + 63 - t;
        __syncthreads();
        pipe.consumer_release();
    }
    pipe.consumer_wait();
    __syncthreads();
    out[t] = out[t] && good && s[1][t] == 64 + t;
}

extern "C" void feature(int* output, int n) {
    int numbers[128], *in;
    for (int i = 0; i < 128; ++i) numbers[i] = i;
    cudaMalloc(&in, sizeof numbers);
    cudaMemcpy(in, numbers, sizeof numbers, cudaMemcpyHostToDevice);
    primitives<<<1, n>>>(in, output);
    groups<<<1, n>>>(in, output);
    pipelines<<<1, n>>>(in, output);
    cudaFree(in);
}
