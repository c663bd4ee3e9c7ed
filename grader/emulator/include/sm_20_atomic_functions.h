#ifndef WARPGRADE_SM_20_ATOMIC_FUNCTIONS_H
#define WARPGRADE_SM_20_ATOMIC_FUNCTIONS_H
#include "cuda_runtime.h"
#endif
