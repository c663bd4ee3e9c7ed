#ifndef WARPGRADE_DEVICE_FUNCTIONS_H
#define WARPGRADE_DEVICE_FUNCTIONS_H
#include "cuda_runtime.h"
#endif
