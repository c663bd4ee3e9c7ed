// A heap in a region of its own, so that its memory is recognised (internal to the observation
// half). Blocks have a few sizes, each with a free list. Free lists are validated before use, since
// student code can overwrite those of its heap.
#pragma once
#include <cstddef>
#include <cstdint>

namespace warpgrade {

class Heap {
public:
    explicit constexpr Heap(std::size_t region_bytes) : region_bytes_(region_bytes) {}

    void* allocate(std::size_t bytes, std::size_t alignment = 16);  // null: no room
    void* resize(void* p, std::size_t bytes);
    void release(void* p);
    std::size_t usable(const void* p) const;
    bool owns(const void* p, std::size_t bytes = 1) const {
        auto a = reinterpret_cast<std::uintptr_t>(p);
        return a >= low_ && bytes <= next_ - low_ && a <= next_ - bytes;
    }

private:
    static constexpr int classes = 112;
    struct FreeBlock {
        FreeBlock* next;
    };

    bool reserve();
    char* take_block(int size_class);

    std::size_t region_bytes_;
    std::uintptr_t low_ = 0, next_ = 0, high_ = 0;
    FreeBlock* free_[classes] = {};
};

}  // namespace warpgrade
