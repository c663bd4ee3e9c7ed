// Standing by for the clock, which is the grader's and stands outside this process: requests come
// over a page that both have mapped, and this side spins for them. See Word in ../protocol.py.

#ifndef WARPGRADE_STAND_BY_H
#define WARPGRADE_STAND_BY_H

#include "backend.h"

namespace warpgrade::host {

// The shared page. Lives as long as the process.
class Page {
public:
    // Throws std::system_error when the kernel refuses.
    explicit Page(int descriptor);

    // Answer its requests, by `call_sets`, until told to stop or a call fails.
    Answer serve();

private:
    std::uint64_t* words_;
};

}  // namespace warpgrade::host

#endif
