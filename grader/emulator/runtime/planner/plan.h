// The plan that a planner writes: the entry's requests to the device (internal to the planner). Its
// format is that of grader/plan/model.py.
#pragma once
#include <cstddef>
#include <string>

#include "../core.h"

namespace warpgrade::plan {

// Begins a new plan; its arguments are then added in the order of the signature.
void begin();
void add_argument(int argument, const void* low, std::size_t bytes, bool host_space);
// Begins the entry's next call.
void begin_call();
// Ends it: the caller's next work on the default stream waits for streams that aren't non-blocking.
void end_call();

// Reports memory of an earlier call that the last one didn't use or free.
void report_left_behind();

// Why there is no plan (too many steps, for example); "" if there is one.
const std::string& excess();
// The line at which host code first read what kernels write; 0: nowhere, or unknown.
unsigned read_at();
// The whole plan as JSON, all of it ASCII.
std::string text();

// The line of the submission's file for a return address; 0: unknown (lines.cpp).
unsigned line_of(Address pc);
// The row of an instruction in the table, as an address for line_of; the instruction's own address
// if it has none.
Address row_of(Address instruction);

}  // namespace warpgrade::plan
