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

std::string with_length(const std::string& text) {
    char length[24];
    std::snprintf(length, sizeof length, "%016zx\n", text.size());
    return length + text;
}

Answer part_of(const std::string& text_with_length, std::size_t from) {
    constexpr std::size_t head = 17;  // the length and a line break
    if (text_with_length.empty()) return answer(Code::bad_request, "there is no text");
    if (from == 0) return {Code::ok, text_with_length.substr(0, max_text)};
    if (from + head > text_with_length.size()) {
        return answer(Code::bad_request, "beyond the text");
    }
    return {Code::ok, text_with_length.substr(from + head, max_text)};
}

}  // namespace warpgrade::host
