// It transposes on the host, between two copies. | transpose/cuda_v4 | policy_violation | plan=policy_violation, counters=wrong_values
#include <cuda_runtime.h>

#include <vector>

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    std::vector<float> before(rows * cols), after(rows * cols);
    cudaMemcpy(before.data(), input, before.size() * sizeof(float), cudaMemcpyDeviceToHost);
    for (int row = 0; row < rows; ++row)
        for (int col = 0; col < cols; ++col) after[col * rows + row] = before[row * cols + col];
    cudaMemcpy(output, after.data(), after.size() * sizeof(float), cudaMemcpyHostToDevice);
}
