// Maths: fast functions: __expf, __logf, __sinf, __tanhf, __powf, __fdividef, __frcp_rn, __saturatef

__device__ bool near(float a, float b) { return fabsf(a - b) <= 1e-5f; }

__global__ void kernel(int* output, float x) {
    float s, c;
    __sincosf(x, &s, &c);
    bool right = near(__expf(x), expf(x)) && near(__logf(x), 0.0f) && near(__log2f(8.0f * x), 3.0f);
    right &= near(__sinf(x), s) && near(__cosf(x), c) && near(__tanf(x), tanf(x));
    right &= near(__powf(x + 1.0f, 3.0f), 8.0f) && near(__exp10f(2.0f), 100.0f) && near(__log10f(100.0f), 2.0f);
    right &= __fdividef(x, 4.0f) == 0.25f && __frcp_rn(4.0f) == 0.25f && __frsqrt_rn(4.0f) == 0.5f;
    right &= __saturatef(-x) == 0.0f && __saturatef(x + 1.0f) == 1.0f && __fsqrt_rn(9.0f) == 3.0f;
    right &= __fdividef(-x, 1e38f) == 0.0f && -x / 1e38f < 0.0f;  // beyond 2^126 it is 0
    float coarse = 0.0f;
    for (float at = 0.1f * x; at < 2.0f; at += 0.1f)
        coarse = fmaxf(coarse, fabsf(__tanhf(at) - tanhf(at)));
    right &= coarse > 1e-6f && coarse < 2e-5f && isnan(__tanhf(nanf("")));  // 16 bits
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output, 1.0f); }
