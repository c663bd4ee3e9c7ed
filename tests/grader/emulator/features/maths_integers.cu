// Maths: integers: __popc, __clz, __ffs, __brev, __mulhi, __byte_perm, __funnelshift_l, __dp4a

__global__ void kernel(int* output, int one) {
    bool right = __popc(0xf0f0) == 8 && __popcll(~0ull) == 64 && __clz(one) == 31 && __clz(0) == 32;
    right &= __ffs(8 * one) == 4 && __ffs(0) == 0 && __ffsll(1ll << 40) == 41 && __clzll(1ll) == 63;
    right &= __brev(1u) == 0x80000000u && __brevll(1ull) == 1ull << 63;
    right &= __mulhi(1 << 30, 8 * one) == 2 && __umulhi(~0u, 2u) == 1u && __mul24(3, -4) == -12;
    right &= __byte_perm(0x33221100u, 0x77665544u, 0x7531) == 0x77553311u;
    right &= __funnelshift_l(0x80000000u, 1u, 1) == 3u && __funnelshift_r(1u, 1u, 1) == 0x80000000u;
    right &= __dp4a(0x01010101, 0x01020304, 5) == 15 && __sad(3, -4, 1u) == 8u && __hadd(3, 4) == 3;
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output, 1); }
