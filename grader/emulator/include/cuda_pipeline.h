// The primitives alone: nvcuda::experimental::pipeline is not modelled.
#ifndef WARPGRADE_CUDA_PIPELINE_H
#define WARPGRADE_CUDA_PIPELINE_H

#include "cuda_pipeline_primitives.h"

#endif
