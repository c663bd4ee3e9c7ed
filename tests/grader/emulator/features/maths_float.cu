// Maths: single precision: expf, logf, sinf, powf, rsqrtf, fmaf, erff, fminf and others

__device__ bool near(float a, float b) { return fabsf(a - b) <= 1e-6f * fmaxf(1.0f, fabsf(b)); }

__global__ void kernel(int* output, float x) {
    bool right = near(expf(x), 2.7182818f) && near(logf(expf(x)), 1.0f) && near(exp2f(3.0f * x), 8.0f);
    right &= near(sinf(x) * sinf(x) + cosf(x) * cosf(x), 1.0f) && near(tanhf(x), 0.76159416f);
    right &= near(powf(2.0f, 10.0f), 1024.0f) && near(rsqrtf(4.0f), 0.5f) && sqrtf(9.0f) == 3.0f;
    right &= fmaf(2.0f, 3.0f, x) == 7.0f && near(erff(x), 0.84270079f) && fminf(x, NAN) == x;
    right &= floorf(-0.5f) == -1.0f && truncf(-1.5f) == -1.0f && rintf(2.5f) == 2.0f && fmodf(7.0f, 4.0f) == 3.0f;
    right &= near(cbrtf(27.0f), 3.0f) && near(hypotf(3.0f, 4.0f), 5.0f) && isnan(NAN) && isinf(INFINITY);
    right &= copysignf(x, -0.0f) == -1.0f && near(sinpif(0.5f), 1.0f) && near(normcdff(0.0f), 0.5f);
    float s, c;
    sincosf(0.0f, &s, &c);
    right &= s == 0.0f && c == 1.0f && sqrt(x) == 1.0f && abs(-x) == x;
    // Second results go where the other threads see them.
    __shared__ float wholes[1024], sines[1024], cosines[1024];
    __shared__ int exponents[1024], quotients[1024];
    const int here = threadIdx.x, there = blockDim.x - 1 - here;
    right &= modff(here + 0.5f, &wholes[here]) == 0.5f && frexpf(here + 8, &exponents[here]) < 1.0f;
    right &= remquof(5.0f, 3.0f, &quotients[here]) == -1.0f;
    sincosf(here, &sines[here], &cosines[here]);
    __syncthreads();
    right &= wholes[there] == there && exponents[there] >= 4 && (quotients[there] & 7) == 2;
    right &= near(sines[there] * sines[there] + cosines[there] * cosines[there], 1.0f);
    __syncthreads();
    sincospif(0.5f, &sines[here], &cosines[here]);
    right &= near(sines[here], 1.0f);
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output, 1.0f); }
