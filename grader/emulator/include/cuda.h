// The driver API isn't modelled; the header exists because much code includes it without need.
#ifndef WARPGRADE_CUDA_H
#define WARPGRADE_CUDA_H
#include "cuda_runtime.h"
#define CUDA_VERSION 13000
typedef struct CUstream_st* CUstream;
#endif
