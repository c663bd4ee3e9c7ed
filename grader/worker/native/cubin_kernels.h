// The table of a cubin's kernels, which grader/worker/gpu_build.py generates for each file: the
// layout of their parameters, and their resources.

#ifndef WARPGRADE_CUBIN_KERNELS_H
#define WARPGRADE_CUBIN_KERNELS_H

struct warpgrade_parameter {
    unsigned offset, bytes;
};

struct warpgrade_kernel {
    const char* name;  // in the cubin
    unsigned registers;
    unsigned most_threads;  // of a block, by __launch_bounds__; 0: it has none
    unsigned static_shared, local_bytes, constant_bytes;
    unsigned parameter_bytes, parameter_count;
    const warpgrade_parameter* parameters;
};

extern "C" {
extern const warpgrade_kernel warpgrade_kernels[];
extern const unsigned warpgrade_kernel_count;
}

#endif
