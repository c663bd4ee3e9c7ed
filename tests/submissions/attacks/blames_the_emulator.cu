// It calls what the emulator doesn't have, so as not to be measured. | silu/cuda | not_measured | boundary
#include <cuda_runtime.h>

extern "C" void silu(const float* x, float* out, int n) {
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
}
