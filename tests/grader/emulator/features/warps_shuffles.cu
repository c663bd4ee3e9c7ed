// Warps: __shfl_sync, __shfl_up_sync, __shfl_down_sync, __shfl_xor_sync, with and without width

__global__ void kernel(int* output) {
    const int lane = threadIdx.x % 32;
    const unsigned all = 0xffffffffu;
    bool right = __shfl_sync(all, lane, 5) == 5;
    right = right && __shfl_up_sync(all, lane, 3) == (lane < 3 ? lane : lane - 3);
    right = right && __shfl_down_sync(all, lane, 3) == (lane > 28 ? lane : lane + 3);
    right = right && __shfl_xor_sync(all, lane, 16) == (lane ^ 16);
    right = right && __shfl_sync(all, lane, 9, 8) == (lane & ~7) + 1;
    right = right && __shfl_down_sync(all, lane, 1, 4) == (lane % 4 == 3 ? lane : lane + 1);
    right = right && __shfl_up_sync(all, lane, 1, 4) == (lane % 4 == 0 ? lane : lane - 1);
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
