// Reads of bytes that nothing has written yet (internal to the observation half).
//
// Such a read may be part of a data race: another thread writes the byte, in no defined order, and
// the emulator happened to run the reader first. So it is kept until the next point where all
// threads meet, and reported only if no such write came.
#pragma once
#include <cstdint>

#include "races.h"

namespace warpgrade {

// That of an exchange counts only if note_exchanged follows.
void note_early_read(const RaceAccess& access, bool of_exchange);
void note_exchanged(Address a);
void forget_exchange();
void settle_early_shared_reads();  // at a barrier, before its epoch begins, and at a block's end
void settle_early_global_reads();  // at the end of a launch, current_launch still set
void forget_early_reads();

}  // namespace warpgrade
