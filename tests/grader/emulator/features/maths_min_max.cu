// Maths: min and max of every arithmetic type; the constants of math_constants.h

#include <math_constants.h>

__global__ void kernel(int* output, int one) {
    bool right = min(one, 2) == 1 && max(-1, one) == 1 && max(1u, 2u) == 2u && min(1ll, 2ll) == 1ll;
    right &= min(1.5f, 2.5f) == 1.5f && max(1.0, 2.0) == 2.0 && max(1.0f, 2.0) == 2.0;
    right &= max(one, 2u) == 2u && max(size_t(3), size_t(4)) == 4;
    right &= -CUDART_INF_F < 0.0f && isnan(CUDART_NAN_F) && CUDART_PI_F > 3.14159f && CUDART_INF > 1e308;
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output, 1); }
