// Cooperative groups: coalesced_threads; reduce and invoke_one over tiles and coalesced threads

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void kernel(int* output, int* count) {
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    bool right = cg::reduce(tile, (int)threadIdx.x % 16, cg::plus<int>()) == 120;
    right &= cg::reduce(tile, 1.0f + threadIdx.x % 16, cg::greater<float>()) == 16.0f;
    right &= cg::reduce(tile, (int)tile.thread_rank(), cg::less<int>()) == 0;
    if (threadIdx.x % 2) {
        cg::coalesced_group odd = cg::coalesced_threads();
        right &= odd.size() == 16 && odd.thread_rank() == threadIdx.x % 32 / 2;
        right &= odd.shfl((int)threadIdx.x, 1) == threadIdx.x / 32 * 32 + 3;
        right &= cg::reduce(odd, 2, cg::plus<int>()) == 32 && odd.ballot(1) == 0xffff;
        if (odd.thread_rank() == 0) atomicAdd(count, odd.size());
    }
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    cg::invoke_one(warp, [&](int n) { atomicAdd(count + 1, n); }, 3);
    __syncthreads();
    right &= *(volatile int*)(count + 1) == 3 * (int)blockDim.x / 32;
    output[threadIdx.x] = right && *(volatile int*)count == 32;
}

extern "C" void feature(int* output, int n) {
    int* count = nullptr;
    cudaMalloc(&count, 2 * sizeof(int));
    cudaMemset(count, 0, 2 * sizeof(int));
    kernel<<<1, n>>>(output, count);
    cudaFree(count);
}
