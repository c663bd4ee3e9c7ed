// Calls the entries of reference/transpose.cu on rows=256 cols=512, the case they are measured on.

#include "driving.h"

extern "C" void transpose_v1(const float* input, float* output, int rows, int cols);
extern "C" void transpose_v2(const float* input, float* output, int rows, int cols);
extern "C" void transpose_v3(const float* input, float* output, int rows, int cols);
extern "C" void transpose_v4(const float* input, float* output, int rows, int cols);

int main() {
    const int rows = 256, cols = 512;
    float* input = device_floats(rows * cols);
    float* output = device_floats(rows * cols);
    for (auto transpose : {transpose_v1, transpose_v2, transpose_v3, transpose_v4})
        transpose(input, output, rows, cols);
    return finished();
}
