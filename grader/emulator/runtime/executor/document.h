// Reads the little-endian fields of a document, one after the other (internal to the executor).
#pragma once
#include <cstdint>
#include <cstring>
#include <string>

#include "steps.h"

namespace warpgrade::executor {

class Reader {
public:
    explicit Reader(const std::string& text) : text_(text) {}

    template <class T>
    T value() {
        T result;
        std::memcpy(&result, take(sizeof result), sizeof result);
        return result;
    }
    std::string bytes() {
        const std::size_t length = value<std::uint32_t>();
        return std::string(take(length), length);
    }
    // How many things follow, each of which takes at least a byte.
    std::size_t count() {
        const std::size_t number = value<std::uint32_t>();
        if (number > text_.size() - at_) throw BadDocument("more parts than bytes");
        return number;
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

}  // namespace warpgrade::executor
