// Maths: conversions: __float2int_rn, __int2float_rz, __double2ll_rd, __float_as_int, __hiloint2double

__global__ void kernel(int* output, float x) {
    bool right = __float2int_rn(2.5f * x) == 2 && __float2int_rz(-2.5f) == -2 && __float2int_ru(2.1f) == 3;
    right &= __float2int_rd(-2.1f) == -3 && __float2uint_rn(-1.0f) == 0u && __float2int_rn(1e20f) == 2147483647;
    right &= __float2int_rz(NAN) == 0 && __double2ll_rd(-0.5) == -1ll && __double2int_rn(3.5) == 4;
    right &= __int2float_rn(16777217) == 16777216.0f && __int2float_ru(16777217) == 16777218.0f;
    right &= __double2float_rz(1.0 + 1e-9) == 1.0f && __uint2float_rz(~0u) < 4294967296.0f;
    right &= __float_as_int(1.0f) == 0x3f800000 && __uint_as_float(0x40000000u) == 2.0f;
    right &= __double_as_longlong(1.0) == 0x3ff0000000000000ll && __hiloint2double(0x3ff00000, 0) == 1.0;
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output, 1.0f); }
