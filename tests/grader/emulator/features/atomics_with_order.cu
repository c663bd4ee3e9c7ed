// Atomics: cuda::atomic and cuda::atomic_ref, with memory orders and scopes, in global and shared memory; fences
#include <cuda/atomic>
#include <cuda_runtime.h>

__device__ cuda::atomic<int, cuda::thread_scope_device> tickets{0};
__device__ cuda::atomic<unsigned> total;

// The block that draws the last ticket sees what the others have stored before they drew theirs.
__global__ void last_block(int* partial, int* output, int n) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = 1;
        last = tickets.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
        total.fetch_add(2u, cuda::memory_order_relaxed);
    }
    __syncthreads();
    if (!last) return;
    int sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += partial[i];
    for (int i = threadIdx.x; i < n; i += blockDim.x) output[i] = sum == gridDim.x;
}

// A flag in shared memory: stored with release, read with acquire, or relaxed with fences.
__global__ void flags(int* output) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> ready;
    __shared__ int value, second, relaxed;
    const int t = threadIdx.x;
    cuda::atomic_ref<int, cuda::thread_scope_block> flag(relaxed);
    if (t == 0) {
        ready.store(0, cuda::std::memory_order_relaxed);
        flag.store(0, cuda::memory_order_relaxed);
    }
    __syncthreads();
    if (t == 63) {
        value = 7;
        ready.store(1, cuda::memory_order_release);
        second = 8;
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_block);
        flag.store(1, cuda::memory_order_relaxed);
    }
    while (ready.load(cuda::memory_order_acquire) == 0) {
    }
    const bool good = value == 7;
    while (flag.load(cuda::memory_order_relaxed) == 0) {
    }
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_block);
    output[t] = output[t] && good && second == 8;
}

__global__ void operations(int* output, int* ints, float* sum) {
    const int t = threadIdx.x;
    cuda::atomic_ref<int, cuda::thread_scope_device> most(ints[0]), bits(ints[1]), own(ints[2 + t]);
    cuda::atomic_ref<float, cuda::thread_scope_device> of_floats(*sum);
    most.fetch_max(t, cuda::memory_order_relaxed);
    bits.fetch_or(1 << t % 8, cuda::memory_order_relaxed);
    of_floats.fetch_add(0.5f, cuda::memory_order_relaxed);
    own = 3;
    int expected = 3;
    bool good = own.compare_exchange_strong(expected, 5) && own.exchange(6) == 5;
    good = good && !own.compare_exchange_weak(expected, 9) && expected == 6 && own++ == 6;
    __syncthreads();
    good = good && most.load() == 63 && bits == 255 && own == 7 && of_floats.load() == 32.0f;
    output[t] = output[t] && good && total.load() == 8;
}

extern "C" void feature(int* output, int n) {
    int* ints = nullptr;
    cudaMalloc(&ints, (n + 3) * sizeof(int));
    cudaMemset(ints, 0, (n + 3) * sizeof(int));
    last_block<<<4, 32>>>(ints, output, n);
    flags<<<1, n>>>(output);
    cudaMemset(ints, 0, (n + 3) * sizeof(int));
    operations<<<1, n>>>(output, ints, (float*)(ints + n + 2));
    cudaFree(ints);
}
