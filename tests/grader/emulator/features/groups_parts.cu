// Cooperative groups: labeled_partition and binary_partition of tiles and coalesced threads

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__device__ bool parts_of_a_tile(int x) {
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    const cg::coalesced_group third = cg::labeled_partition(tile, x % 3);
    const int mine = (31 - x % 32 % 3) / 3 + 1;  // of the lanes below 32, as x % 3 is lane % 3 or beside it
    bool right = third.size() == (x < 32 ? mine : third.size());
    right &= third.meta_group_size() == 3 && cg::reduce(third, x % 3, cg::plus<int>()) == x % 3 * (int)third.size();
    right &= x >= 32 || third.meta_group_rank() == x % 3;
    right &= third.shfl(x, 0) % 3 == x % 3 && third.shfl(x, third.size() - 1) >= x;

    const cg::coalesced_group side = cg::binary_partition(tile, x % 32 < 5);
    right &= side.size() == (x % 32 < 5 ? 5 : 27) && side.meta_group_size() == 2;
    right &= side.meta_group_rank() == (x % 32 < 5) && side.any(x % 32 == 4) == (x % 32 < 5);
    const auto all = cg::binary_partition(tile, true);
    return right && all.size() == 32 && all.meta_group_size() == 1 && all.meta_group_rank() == 0;
}

__global__ void kernel(int* output, int* count) {
    const int x = threadIdx.x;
    bool right = parts_of_a_tile(x);
    if (x % 2) {
        const auto odd = cg::coalesced_threads();
        const auto low = cg::labeled_partition(odd, x % 32 < 16);
        right &= low.size() == 8 && low.thread_rank() == x % 16 / 2;
        const auto same = cg::labeled_partition(odd, count + x % 4);  // 1 and 3, by address
        right &= same.size() == 8 && same.meta_group_rank() == x % 4 / 2;
        int equal = 0;
        right &= same.match_all(x % 4, equal) == 0xff && equal;
        if (same.thread_rank() == 0) atomicAdd(count + x % 4, (int)same.size());
    }
    __syncthreads();
    output[x] = right && atomicAdd(count + 1, 0) == 16 && atomicAdd(count + 3, 0) == 16;
}

extern "C" void feature(int* output, int n) {
    int* count = nullptr;
    cudaMalloc(&count, 4 * sizeof(int));
    cudaMemset(count, 0, 4 * sizeof(int));
    kernel<<<1, n>>>(output, count);
    cudaFree(count);
}
