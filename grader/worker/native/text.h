// The text of replies: JSON objects of a few members.

#ifndef WARPGRADE_TEXT_H
#define WARPGRADE_TEXT_H

#include <string>
#include <string_view>

#include "backend.h"

namespace warpgrade::host {

// A JSON string of at most `limit` bytes of the text, quoted and escaped.
std::string quoted(std::string_view text, std::size_t limit = 2000);

// An answer whose text is {"message": ...}.
Answer answer(Code code, std::string_view message);

// An answer whose text is {"type": ..., "message": ...}.
Answer answer(Code code, std::string_view type, std::string_view message);

// A text that may exceed a reply, behind a line with its length in 16 hexadecimal digits.
std::string with_length(const std::string& text);
// A part of it: from byte 0 with that line, else from byte `from` of the text itself.
Answer part_of(const std::string& text_with_length, std::size_t from);

}  // namespace warpgrade::host

#endif
