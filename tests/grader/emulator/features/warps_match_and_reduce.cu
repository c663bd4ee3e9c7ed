// Warps: __match_any_sync, __match_all_sync, __reduce_add_sync and its relatives

__global__ void kernel(int* output) {
    const int lane = threadIdx.x % 32;
    const unsigned all = 0xffffffffu;
    int same = 0;
    bool right = __match_any_sync(all, lane / 16) == (lane < 16 ? 0x0000ffffu : 0xffff0000u);
    right &= __match_all_sync(all, 7.0f, &same) == all && same;
    right &= __match_all_sync(all, lane, &same) == 0 && !same;
    right &= __reduce_add_sync(all, lane - 16) == -16;
    right &= __reduce_min_sync(all, lane - 16) == -16;
    right &= __reduce_max_sync(all, (unsigned)lane) == 31u;
    right &= __reduce_and_sync(all, 0xf0u | lane) == 0xf0u && __reduce_or_sync(all, (unsigned)lane) == 31u;
    right &= __reduce_xor_sync(all, 1u) == 0u;
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
