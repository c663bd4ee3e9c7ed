// Atomics: atomicAdd, Sub, Min, Max, And, Or, Xor, Inc, Dec, Exch, CAS on integers

__global__ void kernel(int* i, unsigned* u, unsigned long long* w) {
    const int t = threadIdx.x;
    atomicAdd(&i[0], 1);
    atomicSub(&i[1], 1);
    atomicMin(&i[2], t);
    atomicMax(&i[3], t);
    atomicOr(&u[0], 1u << t % 32);
    atomicAnd(&u[1], ~(1u << t % 32));
    atomicXor(&u[2], 3u);
    atomicInc(&u[3], 9u);
    atomicDec(&u[4], 9u);
    atomicExch(&u[5], 42u);
    atomicCAS(&i[4], 0, t + 1);
    atomicAdd(&w[0], 1ull << 33);
    atomicMax(&w[1], (unsigned long long)t << 40);
}
__global__ void check(int* output, const int* i, const unsigned* u, const unsigned long long* w) {
    bool right = i[0] == 64 && i[1] == -64 && i[2] == 0 && i[3] == 63 && i[4] >= 1 && i[4] <= 64;
    right &= u[0] == ~0u && u[1] == 0 && u[2] == 0 && u[3] == 4 && u[4] == 6 && u[5] == 42;
    right &= w[0] == 64ull << 33 && w[1] == 63ull << 40;
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) {
    char* memory = nullptr;
    cudaMalloc(&memory, 256);
    cudaMemset(memory, 0, 256);
    unsigned long long* w = (unsigned long long*)memory;
    int* i = (int*)(memory + 64);
    unsigned* u = (unsigned*)(memory + 128);
    kernel<<<1, 64>>>(i, u, w);
    check<<<1, n>>>(output, i, u, w);
    cudaFree(memory);
}
