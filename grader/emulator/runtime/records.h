// Records each access that the counters count, for a picture of a run (internal to the observation
// half). The trusted side reads the records with grader/executors/trace.py.
#pragma once
#include <cstdint>
#include <string>

#include "counters.h"

namespace warpgrade {

extern bool recording;  // beside counting

void forget_records();
void records_launch_begin();
// `before` are the counters of the access's place without it, `after` with it.
void record_request(const WarpAccess& access, const SiteCounters& before,
                    const SiteCounters& after);
void record_warp_synchronisation(const WarpAccess& access);
void record_barrier();  // the block's waiting threads are about to go on
std::string written_records();  // as JSON

}  // namespace warpgrade
