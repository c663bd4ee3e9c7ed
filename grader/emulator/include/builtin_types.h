#ifndef WARPGRADE_BUILTIN_TYPES_H
#define WARPGRADE_BUILTIN_TYPES_H
#include "cuda_runtime.h"
#endif
