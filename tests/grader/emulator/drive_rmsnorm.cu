// Calls the entries of reference/rmsnorm.cu: a row of cols=2048, and rows=16 of them.

#include "driving.h"

extern "C" void rms_norm_vector(const float* input, const float* weight, float* output, int cols,
                                float epsilon);
extern "C" void rms_norm_matrix(const float* input, const float* weight, float* output, int rows,
                                int cols, float epsilon);

int main() {
    const int rows = 16, cols = 2048;
    float* input = device_floats(rows * cols);
    float* weight = device_floats(cols);
    float* output = device_floats(rows * cols);
    rms_norm_vector(input, weight, output, cols, 1e-5f);
    rms_norm_matrix(input, weight, output, rows, cols, 1e-5f);
    return finished();
}
