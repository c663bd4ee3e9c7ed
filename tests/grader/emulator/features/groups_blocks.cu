// Cooperative groups: this_thread_block: sync, ranks, sizes

#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void kernel(int* output) {
    __shared__ int values[64];
    cg::thread_block block = cg::this_thread_block();
    values[block.thread_rank()] = block.thread_rank();
    block.sync();
    const int other = values[block.size() - 1 - block.thread_rank()];
    cg::sync(block);
    bool right = other == block.num_threads() - 1 - threadIdx.x && block.group_index().x == 0;
    cg::thread_group any_group = block;
    right &= any_group.size() == 64 && any_group.thread_rank() == threadIdx.x;
    any_group.sync();
    output[threadIdx.x] = right && block.group_dim().x == 64 && block.thread_index().x == threadIdx.x;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
