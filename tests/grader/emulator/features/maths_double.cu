// Maths: double precision: exp, log, sin, pow, rsqrt, fma, erf, fmin and others

__device__ bool near(double a, double b) { return fabs(a - b) <= 1e-14 * fmax(1.0, fabs(b)); }

__global__ void kernel(int* output, double x) {
    bool right = near(exp(x), 2.718281828459045) && near(log(exp(x)), 1.0) && near(log1p(0.0), 0.0);
    right &= near(sin(x) * sin(x) + cos(x) * cos(x), 1.0) && near(pow(2.0, 0.5) * sqrt(2.0), 2.0);
    right &= near(rsqrt(4.0), 0.5) && fma(2.0, 3.0, x) == 7.0 && near(erf(x), 0.8427007929497149);
    right &= floor(-0.5) == -1.0 && ceil(0.5) == 1.0 && fmin(x, 2.0) == x && near(lgamma(3.0), log(2.0));
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output, 1.0); }
