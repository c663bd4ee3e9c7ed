#ifndef WARPGRADE_MATH_FUNCTIONS_H
#define WARPGRADE_MATH_FUNCTIONS_H
#include "cuda_runtime.h"
#endif
