// Cooperative groups: coalesced_threads, binary_partition, labeled_partition; reduce, scans and invoke_one over tiles and coalesced threads

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
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
    const int lane = warp.thread_rank();
    right &= cg::inclusive_scan(warp, lane) == lane * (lane + 1) / 2;
    right &= cg::exclusive_scan(warp, lane, cg::plus<int>()) == lane * (lane - 1) / 2;
    right &= cg::exclusive_scan(tile, (int)threadIdx.x % 16, cg::greater<int>()) == (lane % 16 ? lane % 16 - 1 : -2147483647 - 1);
    const auto thirds = cg::binary_partition(warp, lane % 3 == 0);
    right &= thirds.size() == (lane % 3 ? 21 : 11) && cg::reduce(thirds, 1, cg::plus<int>()) == (lane % 3 ? 21 : 11);
    const auto alike = cg::labeled_partition(warp, lane % 5);
    right &= alike.thread_rank() == lane / 5 && cg::inclusive_scan(alike, 1) == lane / 5 + 1;
    cg::invoke_one(warp, [&](int n) { atomicAdd(count + 1, n); }, 3);
    right &= cg::invoke_one_broadcast(alike, [&] { return lane % 5 + 1; }) == lane % 5 + 1;
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
