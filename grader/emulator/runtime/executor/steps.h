// Carries out the steps of a plan on data (internal to the executor).
#pragma once
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace warpgrade::executor {

// Memory that is there before the first step: the argument at this place of the signature.
struct ArgumentMemory {
    int argument;
    char* low;
    std::size_t bytes;
};

// A document (grader/emulator/execution.py), read and found to be sound.
class Steps {
public:
    // Throws BadDocument.
    Steps(const std::string& document, const std::vector<ArgumentMemory>& arguments);
    ~Steps();
    bool wants_counters() const;
    bool wants_fresh_variables() const;  // of the device, as the program has them at its start
    // Throws BadDocument where a step asks for what the plan can't have: memory beyond its buffer.
    void run();

private:
    struct Content;
    Content* content_;
};

// `__device__` and `__constant__` variables are kept as they are now, and brought back.
void keep_device_variables();
void restore_device_variables();

}  // namespace warpgrade::executor
