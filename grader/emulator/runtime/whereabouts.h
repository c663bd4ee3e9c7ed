// Where a program is that doesn't end, for the grader, which asks by a signal.
#pragma once

#include "core.h"

namespace warpgrade {

// Whether the starts of basic blocks are to be noted.
extern bool noting;

// Installs the handler of SIGUSR1.
void answer_where();

// Notes the start of a basic block.
void note_block(Address pc);

}  // namespace warpgrade
