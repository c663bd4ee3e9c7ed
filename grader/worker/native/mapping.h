// A memfd of the arena as ordinary memory of this process.

#ifndef WARPGRADE_MAPPING_H
#define WARPGRADE_MAPPING_H

#include <cstddef>
#include <utility>
#include <vector>

namespace warpgrade::host {

// Mapped between two inaccessible margins, so that a stray pointer faults. Lives as long as the
// process.
class Mapping {
public:
    // Throws std::system_error when the kernel refuses. The descriptor stays open.
    Mapping(int descriptor, std::size_t length, bool writable, std::size_t margin);

    // Make these (offset, length) accessible, widened to pages, and nothing else.
    // Throws std::system_error.
    void expose(const std::vector<std::pair<std::size_t, std::size_t>>& ranges);

    char* at(std::size_t offset) const { return start_ + offset; }

private:
    char* start_;
    std::size_t length_;
    int protection_;
};

}  // namespace warpgrade::host

#endif
