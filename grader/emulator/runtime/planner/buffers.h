// The memory that a plan's steps refer to (internal to the planner).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "../core.h"

namespace warpgrade::plan {

enum class Kind { argument, device, managed, symbol };

struct Buffer {
    Kind kind;
    int argument;  // its place in the signature, or -1
    Address low;
    std::size_t bytes;
    std::string name;
    unsigned line;
    bool freed;
    Address pc;             // of its allocation
    std::size_t last_call;  // that used it

    bool is_allocated() const { return kind == Kind::device || kind == Kind::managed; }
};

class Buffers {
public:
    static constexpr std::size_t most = 4'000;
    static constexpr std::size_t none = ~std::size_t{0};

    std::size_t size() const { return all_.size(); }
    Buffer& operator[](std::size_t number) { return all_[number]; }
    auto begin() { return all_.begin(); }
    auto end() { return all_.end(); }

    // Its number.
    std::size_t add(Buffer buffer);
    // The buffer of a device address: the one that contains it, or else the nearest. A variable's
    // is recorded on first use.
    std::size_t at(Address a);

private:
    std::size_t of_variable(Address a);

    std::vector<Buffer> all_;
};

}  // namespace warpgrade::plan
