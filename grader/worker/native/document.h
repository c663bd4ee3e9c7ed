// Reads the little-endian fields of a document in order: of a plan, as for the executors with and
// without a GPU.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace warpgrade {

// A document that can't be run; what() says why.
class BadDocument : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

class Reader {
public:
    explicit Reader(const std::string& text) : text_(text) {}

    template <typename Type>
    Type value() {
        Type result;
        std::memcpy(&result, take(sizeof result), sizeof result);
        return result;
    }

    std::uint32_t number() { return value<std::uint32_t>(); }

    std::string bytes() {
        const std::size_t length = number();
        return std::string(take(length), length);
    }

    // The number of the following items, each of which takes at least a byte.
    std::size_t count() {
        const std::size_t found = number();
        if (found > text_.size() - at_) throw BadDocument("more parts than bytes");
        return found;
    }

    template <typename Read>
    auto list(Read read) {
        std::size_t left = count();
        std::vector<decltype(read(*this))> found;
        found.reserve(std::min<std::size_t>(left, 1024));  // a wrong number takes no memory
        for (; left; --left) found.push_back(read(*this));
        return found;
    }

    template <typename Type, std::size_t size>
    std::array<Type, size> several() {
        std::array<Type, size> found;
        for (Type& each : found) each = value<Type>();
        return found;
    }

    bool at_end() const { return at_ == text_.size(); }

private:
    const char* take(std::size_t length) {
        if (length > text_.size() - at_) throw BadDocument("the document ends too early");
        at_ += length;
        return text_.data() + at_ - length;
    }

    const std::string& text_;
    std::size_t at_ = 0;
};

// `height` rows of `width` bytes in a buffer, `pitch` bytes apart.
struct Rows {
    std::uint32_t buffer;
    std::int64_t offset;
    std::uint64_t pitch, width, height;
};

// An address among bytes: at byte `at`, of byte `offset` of a buffer.
struct Relocation {
    std::uint32_t at, buffer;
    std::int64_t offset;
};

inline Rows read_rows(Reader& fields) {
    Rows rows{};
    rows.buffer = fields.number();
    rows.offset = fields.value<std::int64_t>();
    rows.pitch = fields.value<std::uint64_t>();
    rows.width = fields.value<std::uint64_t>();
    rows.height = fields.value<std::uint64_t>();
    return rows;
}

inline Relocation read_relocation(Reader& fields) {
    Relocation found{};
    found.at = fields.number();
    found.buffer = fields.number();
    found.offset = fields.value<std::int64_t>();
    return found;
}

}  // namespace warpgrade
