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

}  // namespace warpgrade::host

#endif
