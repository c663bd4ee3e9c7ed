#include "json.h"

#include <algorithm>
#include <cstdio>

namespace warpgrade::plan {

std::string number(long long value) { return std::to_string(value); }

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char letter : text) {
        const auto byte = static_cast<unsigned char>(letter);
        if (byte < 0x20 || byte > 0x7e || letter == '"' || letter == '\\') {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", byte);
            result += escape;
        } else {
            result += letter;
        }
    }
    return result + '"';
}

std::string base64(const char* data, std::size_t bytes) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string result;
    result.reserve((bytes + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes; i += 3) {
        const std::size_t left = std::min<std::size_t>(3, bytes - i);
        unsigned group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            group = group << 8 | (k < left ? static_cast<unsigned char>(data[i + k]) : 0u);
        }
        for (std::size_t k = 0; k < 4; ++k) {
            result += k <= left ? letters[group >> (18 - 6 * k) & 63] : '=';
        }
    }
    return result;
}

}  // namespace warpgrade::plan
