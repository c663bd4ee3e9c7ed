// Warps: __ballot_sync, __any_sync, __all_sync, __activemask

__global__ void kernel(int* output) {
    const int lane = threadIdx.x % 32;
    const unsigned all = 0xffffffffu;
    bool right = __ballot_sync(all, lane % 2) == 0xaaaaaaaau;
    right &= __any_sync(all, lane == 31) != 0;
    right &= __any_sync(all, lane == 32) == 0;
    right &= __all_sync(all, lane < 32) != 0;
    right &= __all_sync(all, lane < 31) == 0;
    right &= __activemask() == all;
    if (lane < 8) right &= __ballot_sync(0xffu, 1) == 0xffu;
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
