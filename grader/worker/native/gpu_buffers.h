// Buffers of the arena that lie on the GPU: allocations of CUDA's virtual memory, imported by
// descriptor and mapped with the access that was told. The hardware keeps what is for reading only:
// a store to it is an illegal memory access. CUDA Driver API, "Virtual Memory Management".

#ifndef WARPGRADE_GPU_BUFFERS_H
#define WARPGRADE_GPU_BUFFERS_H

#include "backend.h"

namespace warpgrade::host {

// Where a buffer's first byte is on the device; needs a context. The mapping lives as long as the
// process. Throws std::runtime_error when the driver refuses.
char* import_gpu_buffer(const Buffer& buffer);

}  // namespace warpgrade::host

#endif
