// The driver API isn't modelled; the header is, since much code includes it out of habit.
#ifndef WARPGRADE_CUDA_H
#define WARPGRADE_CUDA_H
#include "cuda_runtime.h"
#define CUDA_VERSION 13000
typedef struct warpgrade_stream* CUstream;
#endif
