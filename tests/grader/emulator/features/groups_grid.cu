// Cooperative groups: this_grid: sync of a cooperative launch, ranks, sizes

#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ int across[64];

__device__ bool sizes_are_right(const cg::grid_group& grid) {
    const unsigned rank = blockIdx.x * blockDim.x + threadIdx.x;
    return grid.size() == 64 && grid.num_threads() == 64 && grid.thread_rank() == rank &&
           grid.num_blocks() == 4 && grid.block_rank() == blockIdx.x && grid.is_valid() &&
           grid.dim_blocks().x == 4 && grid.group_dim().x == 4 &&
           grid.block_index().x == blockIdx.x && grid.thread_index().x == rank &&
           grid.dim_threads().x == 64 && cg::group_size(grid) == 64;
}

__global__ void kernel(int* output) {
    __shared__ int own[16];
    cg::grid_group grid = cg::this_grid();
    const int rank = static_cast<int>(grid.thread_rank());
    own[threadIdx.x] = rank;
    across[rank] = rank;
    grid.sync();
    const int opposite = across[63 - rank];
    cg::sync(grid);
    across[rank] = 2 * rank;
    grid.sync();
    bool right = opposite == 63 - rank && across[63 - rank] == 2 * (63 - rank);
    right &= own[15 - threadIdx.x] == static_cast<int>(blockIdx.x * 16 + 15 - threadIdx.x);
    output[rank] = right && sizes_are_right(grid);
}

extern "C" void feature(int* output, int n) {
    void* arguments[] = {&output};
    cudaLaunchCooperativeKernel((void*)kernel, 4, n / 4, arguments);
}
