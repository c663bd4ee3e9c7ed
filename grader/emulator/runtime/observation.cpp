// Dispatches events of execution and the host within the observation half.
#include "observe.h"

#include "block_order.h"
#include "confirmed_reads.h"
#include "counters.h"
#include "device_memory.h"
#include "early_reads.h"
#include "findings.h"
#include "races.h"
#include "records.h"
#include "shared_memory.h"
#include "whereabouts.h"

namespace warpgrade {

void observe_launch_begin() {
    initialise_observation();
    races_launch_begin();
    open_dynamic_shared(current_launch->dynamic_shared);
    counters_launch_begin();
    records_launch_begin();
    device_open();
}

void observe_launch_end() {
    if (race_pending) settle_race();
    attention = noting;
    settle_early_shared_reads();
    settle_unconfirmed_shared_reads();
    settle_early_global_reads();
    settle_unconfirmed_global_reads();
    settle_read_only_loads();
    counters_launch_end();
    device_close();
}

void observe_block_begin() { races_block_begin(); }

void observe_block_end() {
    if (race_pending) settle_race();
    counters_block_end();
    settle_early_shared_reads();
    settle_unconfirmed_shared_reads();
}

void observe_grid_barrier() {
    settle_early_global_reads();
    settle_unconfirmed_global_reads();
    races_grid_barrier();
}

void observe_barrier() {
    if (race_pending) settle_race();
    settle_early_shared_reads();
    settle_unconfirmed_shared_reads();
    races_barrier();
}

void observe_warp_sync(std::uint32_t warp, unsigned mask) {
    if (race_pending) settle_race();
    races_warp_sync(warp, mask);
}

void begin_entry(bool with_counters, bool with_records) {
    initialise_observation();
    counting = with_counters;
    forget_device_memory();
    forget_findings();
    forget_counters();
    forget_records();
    recording = with_counters && with_records;
    forget_races();
    forget_atomics();
    forget_early_reads();
    forget_unconfirmed_reads();
}

void end_entry(std::size_t first_allocation) {
    if (const LaunchError* error = unchecked_launch_error()) {
        report_finding(FindingKind::launch_error, error->pc, nullptr, 0, nullptr, "%s: %s",
                       error->kernel, error->reason);
    }
    bool cut_short = sticky_error() != 0 || finding_count() != 0;  // leaks are to be expected then
    if (!cut_short) report_leaks(first_allocation);
}

}  // namespace warpgrade
