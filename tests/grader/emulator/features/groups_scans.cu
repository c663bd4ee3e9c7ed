// Cooperative groups: inclusive_scan and exclusive_scan of tiles and coalesced threads

#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

__global__ void kernel(int* output) {
    const int x = threadIdx.x;
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int rank = tile.thread_rank();
    bool right = cg::inclusive_scan(tile, rank) == rank * (rank + 1) / 2;
    right &= cg::exclusive_scan(tile, 2.0f, cg::plus<float>()) == 2.0f * rank;
    right &= cg::inclusive_scan(tile, rank ^ 8, cg::greater<int>()) == (rank < 8 ? rank + 8 : 15);
    // What is combined keeps its order, the earlier part second: the pair (first, last) of ranks.
    const auto joined = cg::inclusive_scan(tile, make_int2(rank, rank), [](int2 own, int2 before) {
        return before.y + 1 == own.x ? make_int2(before.x, own.y) : make_int2(-1, -1);
    });
    right &= joined.x == 0 && joined.y == rank;
    if (x % 3 == 0) {
        const auto third = cg::coalesced_threads();
        const int before = cg::exclusive_scan(third, 1);
        right &= before == (int)third.thread_rank();
        right &= cg::inclusive_scan(third, 1, cg::plus<int>()) == before + 1;
    }
    output[x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
