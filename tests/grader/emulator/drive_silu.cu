// Calls the entry of reference/silu.cu on n=16384.

#include "driving.h"

extern "C" void silu(const float* input, float* output, int n);

int main() {
    const int n = 16384;
    silu(device_floats(n), device_floats(n), n);
    return finished();
}
