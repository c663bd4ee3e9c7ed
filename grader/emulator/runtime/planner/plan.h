// The plan that a planner writes: what the entry had the device do (internal to the planner). Its
// format is that of grader/plan/model.py.
#pragma once
#include <cstddef>
#include <string>

#include "../core.h"

namespace warpgrade::plan {

// A new plan, of arguments that are then added in the order of the signature.
void begin();
void add_argument(int argument, const void* low, std::size_t bytes, bool host_space);
// What follows belongs to the entry's next call.
void begin_call();

// Reports memory that an earlier call has left behind and the last one made no use of.
void report_left_behind();

// Why the plan is none (it has too many steps, say); "" while it is one.
const std::string& excess();
// The whole plan as JSON, all of it ASCII.
std::string text();

// The line of the submission's file that a return address belongs to; 0: unknown (lines.cpp).
unsigned line_of(Address pc);
// The beginning of an instruction's row in the table, as an address that line_of knows; the
// instruction's own where there is none.
Address row_of(Address instruction);

}  // namespace warpgrade::plan
