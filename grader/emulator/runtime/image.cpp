// The executable's place in memory.
#include <link.h>

#include <algorithm>

#include "core.h"

namespace warpgrade {

// The loader lists the executable first; the libraries after it don't matter.
static int read_executable(dl_phdr_info* info, size_t, void* result) {
    Image& image = *static_cast<Image*>(result);
    image.base = info->dlpi_addr;
    image.low = ~Address{0};
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        if (part.p_type == PT_TLS) {
            image.tls_low = reinterpret_cast<Address>(info->dlpi_tls_data);
            image.tls_high = image.tls_low + part.p_memsz;
        }
        if (part.p_type != PT_LOAD) continue;
        Address low = info->dlpi_addr + part.p_vaddr;
        image.low = std::min(image.low, low);
        image.high = std::max(image.high, low + part.p_memsz);
    }
    return 1;
}

const Image& image() {
    static const Image found = [] {
        Image result{};
        dl_iterate_phdr(read_executable, &result);
        return result;
    }();
    return found;
}

}  // namespace warpgrade
