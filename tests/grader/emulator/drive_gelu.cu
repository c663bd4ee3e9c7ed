// Calls the entry of reference/gelu.cu on n=16384.

#include "driving.h"

extern "C" void gelu(const float* input, float* output, int n);

int main() {
    const int n = 16384;
    gelu(device_floats(n), device_floats(n), n);
    return finished();
}
