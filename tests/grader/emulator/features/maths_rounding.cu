// Maths: operations rounded in a direction: __fadd_rz, __fmul_ru, __fdiv_rd, __fmaf_rn, __dadd_rn

__global__ void kernel(int* output, float one, float tiny) {
    bool right = __fadd_rn(one, tiny) == one && __fadd_rz(one, tiny) == one && __fadd_rd(one, -tiny) < one;
    right &= __fadd_ru(one, tiny) > one && __fsub_rz(one, tiny) < one && __fmul_rn(3.0f, one) == 3.0f;
    right &= __fdiv_rd(one, 3.0f) < __fdiv_ru(one, 3.0f) && __fmaf_rn(2.0f, 3.0f, one) == 7.0f;
    right &= __dadd_rn(1.0, 2.0) == 3.0 && __dmul_ru(1.0, 2.0) == 2.0 && __fma_rn(2.0, 3.0, 1.0) == 7.0;
    right &= __ddiv_rz(2.0, 3.0) < __ddiv_ru(2.0, 3.0) && __fsqrt_ru(2.0f) > __fsqrt_rd(2.0f);
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output, 1.0f, 1e-10f); }
