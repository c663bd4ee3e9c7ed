#ifndef WARPGRADE_SM_30_INTRINSICS_H
#define WARPGRADE_SM_30_INTRINSICS_H
#include "cuda_runtime.h"
#endif
