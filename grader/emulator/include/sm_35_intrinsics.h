#ifndef WARPGRADE_SM_35_INTRINSICS_H
#define WARPGRADE_SM_35_INTRINSICS_H
#include "cuda_runtime.h"
#endif
