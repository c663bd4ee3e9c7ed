#ifndef WARPGRADE_DEVICE_TYPES_H
#define WARPGRADE_DEVICE_TYPES_H
#include "cuda_runtime.h"
#endif
