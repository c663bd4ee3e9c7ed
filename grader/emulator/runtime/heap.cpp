#include "heap.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace warpgrade {
namespace {

// The header of each piece of memory.
struct Header {
    std::uint16_t mark;
    std::uint16_t size_class;
    std::uint32_t distance;  // from the start of the block to the memory
    std::uint64_t bytes;     // asked for
};
static_assert(sizeof(Header) == 16);

constexpr std::uint16_t in_use = 0x57a9;
constexpr int small_classes = 64;  // multiples of 16 up to 1024, then two to each power of two

int class_of(std::size_t bytes) {
    if (bytes <= 1024) return static_cast<int>((bytes + 15) / 16) - 1;
    int power = 63 - __builtin_clzll(bytes - 1);  // 2^power < bytes <= 2^(power + 1)
    bool lower_half = bytes <= (std::size_t{3} << (power - 1));
    return small_classes + 2 * (power - 10) + !lower_half;
}

std::size_t class_bytes(int size_class) {
    if (size_class < small_classes) return std::size_t(size_class + 1) * 16;
    int power = (size_class - small_classes) / 2 + 10;
    bool upper_half = (size_class - small_classes) % 2;
    return upper_half ? std::size_t{2} << power : std::size_t{3} << (power - 1);
}

Header* header_of(const void* p) {
    return reinterpret_cast<Header*>(reinterpret_cast<std::uintptr_t>(p) - sizeof(Header));
}

}  // namespace

bool Heap::reserve() {
    if (low_) return true;
    void* region = mmap(nullptr, region_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) return false;
    low_ = next_ = reinterpret_cast<std::uintptr_t>(region);
    high_ = low_ + region_bytes_;
    return true;
}

char* Heap::take_block(int size_class) {
    FreeBlock*& first = free_[size_class];
    std::size_t bytes = class_bytes(size_class);
    if (first) {
        char* block = reinterpret_cast<char*>(first);
        bool sound = !first->next || owns(first->next, bytes);
        first = sound ? first->next : nullptr;
        return block;
    }
    if (bytes > high_ - next_) return nullptr;
    char* block = reinterpret_cast<char*>(next_);
    next_ += bytes;
    return block;
}

void* Heap::allocate(std::size_t bytes, std::size_t alignment) {
    if (!reserve() || bytes > region_bytes_ || alignment > region_bytes_) return nullptr;
    std::size_t extra = alignment > 16 ? alignment : 0;
    int size_class = class_of(bytes + extra + sizeof(Header));
    if (size_class >= classes) return nullptr;
    char* block = take_block(size_class);
    if (!block) return nullptr;
    auto start = reinterpret_cast<std::uintptr_t>(block);
    std::uintptr_t memory = start + sizeof(Header);
    if (extra) memory = (memory + alignment - 1) / alignment * alignment;
    *header_of(reinterpret_cast<void*>(memory)) = {
        in_use, static_cast<std::uint16_t>(size_class), static_cast<std::uint32_t>(memory - start),
        bytes};
    return reinterpret_cast<void*>(memory);
}

void Heap::release(void* p) {
    Header header = *header_of(p);
    if (header.mark != in_use || header.size_class >= classes) std::abort();  // as glibc does
    header_of(p)->mark = 0;
    auto* block = reinterpret_cast<FreeBlock*>(static_cast<char*>(p) - header.distance);
    if (!owns(block)) std::abort();
    block->next = free_[header.size_class];
    free_[header.size_class] = block;
}

std::size_t Heap::usable(const void* p) const { return header_of(p)->bytes; }

void* Heap::resize(void* p, std::size_t bytes) {
    Header header = *header_of(p);
    if (header.mark != in_use || header.size_class >= classes) std::abort();
    if (bytes + header.distance <= class_bytes(header.size_class)) {
        header_of(p)->bytes = bytes;
        return p;
    }
    void* larger = allocate(bytes);
    if (!larger) return nullptr;
    std::memcpy(larger, p, header.bytes < bytes ? header.bytes : bytes);
    release(p);
    return larger;
}

}  // namespace warpgrade
