// It starts processes by the hundred. | silu/cuda | policy_violation | policy, emulator=policy_violation, boundary
#include <cuda_runtime.h>

#include <unistd.h>

extern "C" void silu(const float* x, float* out, int n) {
    for (int i = 0; i < 300; ++i)  // enough to be seen, few enough for a machine without limits
        if (fork() == 0) pause();
}
