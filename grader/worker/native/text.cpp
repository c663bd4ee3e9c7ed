#include "text.h"

#include <cstdio>

namespace warpgrade::host {

std::string quoted(std::string_view text, std::size_t limit) {
    std::string result = "\"";
    for (const char letter : text.substr(0, limit)) {
        const auto byte = static_cast<unsigned char>(letter);
        if (letter == '"' || letter == '\\') {
            result += '\\';
            result += letter;
        } else if (byte < 0x20 || byte == 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", byte);
            result += escape;
        } else {
            result += letter;
        }
    }
    return result + '"';
}

Answer answer(Code code, std::string_view message) {
    return {code, "{\"message\": " + quoted(message) + "}"};
}

Answer answer(Code code, std::string_view type, std::string_view message) {
    return {code, "{\"type\": " + quoted(type) + ", \"message\": " + quoted(message) + "}"};
}

}  // namespace warpgrade::host
