// Runs the steps of a plan on data (internal to the executor).
#pragma once
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace warpgrade::executor {

// Memory that exists before the first step: the argument at this place of the signature.
struct ArgumentMemory {
    int argument;
    char* low;
    std::size_t bytes;
};

// A document (grader/executors/cuda/emulator_encoding.py), parsed and validated.
class Steps {
public:
    // Throws BadDocument.
    Steps(const std::string& document, const std::vector<ArgumentMemory>& arguments);
    ~Steps();
    bool wants_counters() const;
    bool wants_records() const;          // beside counters
    bool wants_fresh_variables() const;  // of the device, with their initial values
    // Throws BadDocument for a step that exceeds its buffer.
    void run();

private:
    struct Content;
    Content* content_;
};

// Saves and restores `__device__` and `__constant__` variables.
void keep_device_variables();
void restore_device_variables();

}  // namespace warpgrade::executor
