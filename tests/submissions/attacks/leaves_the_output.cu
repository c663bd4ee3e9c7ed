// It leaves the output as it was, and says that all is well. | silu/cuda | not_written | emulator=not_written, comparison=not_written
#include <cuda_runtime.h>

extern "C" void silu(const float* x, float* out, int n) { cudaGetLastError(); }
