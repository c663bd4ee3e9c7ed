// Calls the entries of transpose_rungs.cu on rows=256 cols=512, and sees that they are right.

#include "driving.h"

#define EACH_ENTRY(_)                                                                          \
    _(transpose_rows) _(transpose_columns) _(transpose_two_apart) _(transpose_unpadded)        \
    _(transpose_padded_below) _(transpose_padded_by_two) _(transpose_filled_down)              \
    _(transpose_swizzled) _(transpose_vectors)

#define DECLARED(entry) extern "C" void entry(const float*, float*, int rows, int cols);
EACH_ENTRY(DECLARED)

using Transpose = void (*)(const float*, float*, int, int);

void drive(const char* name, Transpose transpose, const float* input, int rows, int cols) {
    const size_t n = static_cast<size_t>(rows) * cols;
    float* output = device_floats(n);
    transpose(input, output, rows, cols);
    std::vector<float> given(n), found(n);
    must(cudaMemcpy(given.data(), input, n * sizeof(float), cudaMemcpyDeviceToHost), name);
    must(cudaMemcpy(found.data(), output, n * sizeof(float), cudaMemcpyDeviceToHost), name);
    for (int row = 0; row < rows; ++row)
        for (int col = 0; col < cols; ++col)
            if (found[col * rows + row] != given[row * cols + col]) {
                fprintf(stderr, "%s: wrong at row %d, column %d\n", name, row, col);
                exit(EXIT_FAILURE);
            }
    must(cudaFree(output), "cudaFree");
}

int main() {
    const int rows = 256, cols = 512;
    const float* input = device_floats(rows * cols);
#define DRIVEN(entry) drive(#entry, entry, input, rows, cols);
    EACH_ENTRY(DRIVEN)
    return finished();
}
