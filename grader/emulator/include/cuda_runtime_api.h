#ifndef WARPGRADE_CUDA_RUNTIME_API_H
#define WARPGRADE_CUDA_RUNTIME_API_H
#include "vector_functions.h"
#define CUDART_VERSION 13000
#endif
