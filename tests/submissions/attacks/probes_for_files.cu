// It asks the preprocessor which files the machine has. | silu/cuda | policy_violation | policy, sandbox
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

// KNOWN

#if __has_include(KNOWN_SECRET)
constexpr bool is_there = true;
#else
constexpr bool is_there = false;
#endif

extern "C" void silu(const float* x, float* out, int n) {
    if (is_there) fprintf(stderr, "ESCAPED: the file is there\n");
    abort();
}
