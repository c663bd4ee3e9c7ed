#ifndef WARPGRADE_HOST_DEFINES_H
#define WARPGRADE_HOST_DEFINES_H
#include "cuda_runtime.h"
#endif
