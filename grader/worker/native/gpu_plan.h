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

// An argument's tensor: in GPU memory, or, `host`, in memory of this process.
struct Place {
    CUdeviceptr allocation = 0, view = 0;  // first byte, with and without guard zones
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

    // Saves all state between calls: variables of modules and, if there are two calls, the memory
    // that host code allocated.
    void keep_state();
    // Restores it, and fills the rest of the allocated memory with fixed bytes.
    void restore_state(CUstream stream);

    // Enqueues the steps of a call on these tensors, by the arguments' numbers. They run after the
    // earlier work of `stream` and before its later work.
    void enqueue(std::size_t call, const std::map<int, Place>& places, CUstream stream);

    // Uploads' bytes are read when the work runs: call this after waiting for it.
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
    std::uint32_t turn_ = 0;  // of our own streams
};

}  // namespace warpgrade::host

#endif
