// A plan on a GPU: its modules loaded, its memory allocated, its steps enqueued.

#ifndef WARPGRADE_GPU_PLAN_H
#define WARPGRADE_GPU_PLAN_H

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "gpu_document.h"
#include "gpu_driver.h"

namespace warpgrade::host {

// Where an argument's tensor is: in memory of the GPU, or, `host`, in memory of this process.
struct Place {
    CUdeviceptr allocation = 0, view = 0;  // of its first byte, guard zones included or not
    std::size_t bytes = 0;  // of the allocation
    bool host = false;
    bool writable = false;  // for the host
};

class LoadedPlan {
public:
    // Throws DriverError, BadDocument.
    explicit LoadedPlan(PlanDocument document);
    ~LoadedPlan();
    LoadedPlan(const LoadedPlan&) = delete;
    LoadedPlan& operator=(const LoadedPlan&) = delete;

    std::size_t calls() const { return plan_.calls.size(); }

    // Have all that lives on between calls hold what it holds now whenever it is restored: variables
    // of modules, and where there are two calls the memory that host code allocated.
    void keep_state();
    // Put that back, and fill the rest of the allocated memory with bytes that no call left there.
    void restore_state(CUstream stream);

    // Enqueue the steps of a call on tensors at these places, by the arguments' numbers. All of it
    // comes after what `stream` was given before, and before what it is given next.
    void enqueue(std::size_t call, const std::map<int, Place>& places, CUstream stream);

    // Of uploads, the bytes are read when the work is done: whoever waited for that forgets them.
    void forget_uploads() { uploads_.clear(); }

private:
    struct Kept {
        CUdeviceptr where;
        std::string bytes;
    };
    struct Location {
        CUdeviceptr address;
        std::uint64_t bytes;  // from there on
        bool host, writable;
    };
    struct Empty {};
    struct Streams;

    LoadedPlan(PlanDocument document, Empty);
    void load();
    CUmodule module_at(std::uint32_t number) const;
    CUstream stream(std::uint32_t number);
    Location base(std::uint32_t buffer, const std::map<int, Place>& places) const;
    Location place(const Rows& rows, const std::map<int, Place>& places) const;
    Location writable_place(const Rows& rows, const std::map<int, Place>& places) const;
    void run(const PlanStep& step, const std::map<int, Place>& places, CUstream stream);
    void fill(const PlanStep& step, const std::map<int, Place>& places, CUstream stream);
    void copy(const Rows& rows, Location to, Location from, std::uint64_t pitch, CUstream stream);
    void launch(const PlanStep& step, const std::map<int, Place>& places, CUstream stream);
    void relocate(std::string& data, const std::vector<Relocation>& pointers,
                  const std::map<int, Place>& places) const;

    PlanDocument plan_;
    std::vector<CUmodule> modules_;
    std::vector<CUfunction> functions_;
    std::vector<CUdeviceptr> memory_;  // of each buffer that is neither an argument; else 0
    std::vector<Kept> kept_;
    std::deque<std::string> uploads_;
    std::map<std::uint32_t, CUstream> streams_;
    std::vector<CUevent> events_;
    std::uint32_t turn_ = 0;  // of the streams beside the plan's
};

}  // namespace warpgrade::host

#endif
