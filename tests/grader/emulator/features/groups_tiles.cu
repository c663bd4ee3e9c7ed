// Cooperative groups: tiled_partition: shuffles, votes, ranks; tiles whose size is known at run time

#include <cooperative_groups.h>
using namespace cooperative_groups;

__global__ void kernel(int* output, unsigned size) {
    const thread_block block = this_thread_block();
    const auto warp = tiled_partition<32>(block);
    const thread_block_tile<8> tile = tiled_partition<8>(block);
    const int t = threadIdx.x;
    bool right = tile.thread_rank() == t % 8 && tile.size() == 8 && tile.meta_group_rank() == t / 8;
    int sum = 1;
    for (int delta = tile.size() / 2; delta > 0; delta /= 2) sum += tile.shfl_down(sum, delta);
    right &= tile.shfl(sum, 0) == 8 && tile.shfl_xor(t, 1) == (t ^ 1) && tile.shfl_up(t, 8) == t;
    right &= tile.ballot(t % 2) == 0xaa && tile.any(t % 8 == 3) && !tile.all(t % 8 == 3);
    right &= warp.shfl(make_double2(t, -t), 4).y == -(t / 32 * 32 + 4);
    tile.sync();
    const auto part = tiled_partition<4>(tile);
    right &= part.meta_group_size() == 2 && part.meta_group_rank() == t % 8 / 4;
    thread_group late = tiled_partition(block, size);
    right &= late.size() == size && late.thread_rank() == t % size;
    late.sync();
    output[t] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output, 16); }
