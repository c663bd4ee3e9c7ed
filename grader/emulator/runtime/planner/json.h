// Pieces of JSON, all of them ASCII (internal to the planner).
#pragma once
#include <cstddef>
#include <string>

namespace warpgrade::plan {

std::string number(long long value);
std::string quoted(const std::string& text);
std::string base64(const char* data, std::size_t bytes);

}  // namespace warpgrade::plan
