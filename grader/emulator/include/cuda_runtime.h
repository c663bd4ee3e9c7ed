// nvcc's implicit include. It brings no more of the C++ library than nvcc does, so that a missing
// #include fails here too.
#ifndef WARPGRADE_CUDA_RUNTIME_H
#define WARPGRADE_CUDA_RUNTIME_H

#include "warpgrade/moved_bits.h"
// Before any header of the C++ library, whose templates use the built-in functions as well.
#include "warpgrade/built_in_copies.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDA_ARCH__ 900

#include "cuda_runtime_api.h"
#include "device_launch_parameters.h"
#include "vector_functions.h"
#include "vector_types.h"
#include "warpgrade/atomics.h"
#include "warpgrade/intrinsics.h"
#include "warpgrade/launch.h"
#include "warpgrade/math_functions.h"
#include "warpgrade/signature.h"
#include "warpgrade/warp_functions.h"

constexpr int warpSize = 32;

#endif
