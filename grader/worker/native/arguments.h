// From the bytes of a request to a call of an entry.

#ifndef WARPGRADE_ARGUMENTS_H
#define WARPGRADE_ARGUMENTS_H

#include <stdexcept>
#include <string>
#include <vector>

#include "backend.h"

namespace warpgrade::host {

// A request that can't be served; what() says why.
class BadRequest : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// The call of an entry in a request, for a planner; its kinds agree with the entry's. Tensors need
// no memory: they have the addresses they would have, of which only the alignment matters.
// `descriptions` may have fewer than the arguments; the rest are named by number and described by
// their buffer. Throws BadRequest.
Call read_call(const Request& request, const warpgrade_entry& entry,
               const std::vector<Buffer>& buffers,
               const std::vector<Description>& descriptions);

// The tensors alone, for a plan, which has the scalars: each is inside its allocation, and that
// inside its buffer. Throws BadRequest.
Call read_tensors(const Request& request, const std::vector<Buffer>& buffers,
                  const std::vector<Description>& descriptions);

}  // namespace warpgrade::host

#endif
