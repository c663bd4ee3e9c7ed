#ifndef WARPGRADE_DRIVER_TYPES_H
#define WARPGRADE_DRIVER_TYPES_H
#include "cuda_runtime.h"
#endif
