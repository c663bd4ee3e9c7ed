// Streams, events, and graphs of what was captured.

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "fake.h"

struct CUgraph_st {
    fake::Nodes nodes;
};

struct CUgraphExec_st {
    fake::Nodes nodes;
};

namespace fake {

Handles<CUstream> streams;
Handles<CUevent> events;

namespace {

Handles<CUgraph> graphs;
Handles<CUgraphExec> executables;
Nodes pending;
std::uint64_t made = 0;

struct Later {
    bool operator()(const Node* left, const Node* right) const {
        return left->number < right->number;
    }
};

// All that has to be done for these, themselves included.
Nodes needed_for(const Nodes& wanted) {
    Nodes found, waiting = wanted;
    std::set<const Node*> seen;
    while (!waiting.empty()) {
        const std::shared_ptr<Node> node = waiting.back();
        waiting.pop_back();
        if (node->done || !seen.insert(node.get()).second) continue;
        found.push_back(node);
        waiting.insert(waiting.end(), node->before.begin(), node->before.end());
    }
    return found;
}

CUresult finish(const Nodes& wanted) {
    const Nodes needed = needed_for(wanted);
    const CUresult result = run(needed);
    for (const auto& each : needed) {
        each->done = true;
        each->work = nullptr;
        each->before.clear();
    }
    const auto done = [](const std::shared_ptr<Node>& each) { return each->done; };
    pending.erase(std::remove_if(pending.begin(), pending.end(), done), pending.end());
    return result;
}

// Nobody may wait for what is only noted.
CUresult spoiled(const std::shared_ptr<Capture>& capture) {
    capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void join(CUstream stream, const std::shared_ptr<Capture>& capture) {
    if (stream->capture == capture) return;
    stream->capture = capture;
    capture->streams.insert(stream);
    stream->outside.swap(stream->last);
    stream->last.clear();
}

}  // namespace

CUresult run(const Nodes& nodes) {
    std::unordered_map<const Node*, int> missing;
    std::unordered_map<const Node*, std::vector<const Node*>> after;
    std::priority_queue<const Node*, std::vector<const Node*>, Later> ready;
    for (const auto& each : nodes) missing[each.get()] = 0;
    for (const auto& each : nodes) {
        for (const auto& before : each->before) {
            if (!missing.count(before.get())) continue;  // it is done
            ++missing[each.get()];
            after[before.get()].push_back(each.get());
        }
    }
    for (const auto& [node, count] : missing) {
        if (!count) ready.push(node);
    }
    while (!ready.empty()) {
        const Node* node = ready.top();
        ready.pop();
        if (const CUresult result = node->work()) return result;
        for (const Node* each : after[node]) {
            if (!--missing[each]) ready.push(each);
        }
    }
    return CUDA_SUCCESS;
}

CUstream default_stream() {
    static const CUstream made = streams.add(new CUstream_st());
    return made;
}

CUresult add(CUstream stream, std::function<CUresult()> work) {
    if (!streams.has(stream)) return CUDA_ERROR_INVALID_HANDLE;
    auto node = std::make_shared<Node>(Node{++made, std::move(work), stream->last});
    stream->last = {node};
    (stream->capture ? stream->capture->nodes : pending).push_back(node);
    return CUDA_SUCCESS;
}

CUresult finish_all() {
    const auto capturing = [](CUstream each) { return each->capture != nullptr; };
    const auto found = std::find_if(streams.live.begin(), streams.live.end(), capturing);
    if (found != streams.live.end()) return spoiled((*found)->capture);
    return finish(pending);
}

}  // namespace fake

using namespace fake;

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned) {
    ENTER();
    *stream = streams.add(new CUstream_st());
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
    ENTER();
    return streams.remove(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamSynchronize(CUstream stream) {
    ENTER();
    if (!streams.has(stream)) return CUDA_ERROR_INVALID_HANDLE;
    return stream->capture ? spoiled(stream->capture) : finish(stream->last);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    ENTER();
    if (!streams.has(stream) || !events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (!event->recorded) return CUDA_SUCCESS;
    if (event->capture) {
        join(stream, event->capture);
    } else if (stream->capture) {
        stream->capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    stream->last.insert(stream->last.end(), event->last.begin(), event->last.end());
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
    ENTER();
    *event = events.add(new CUevent_st(flags));
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
    ENTER();
    return events.remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    ENTER();
    if (!streams.has(stream) || !events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
    const bool external = flags & CU_EVENT_RECORD_EXTERNAL;
    if (external && !stream->capture) return CUDA_ERROR_INVALID_VALUE;
    event->recorded = true;
    event->when.reset();
    event->capture = external ? nullptr : stream->capture;
    if (stream->capture && !external) {
        event->last = stream->last;
        return CUDA_SUCCESS;
    }
    const CUresult result = add(stream, [event] {
        if (events.has(event)) event->when = std::chrono::steady_clock::now();
        return CUDA_SUCCESS;
    });
    event->last = external ? Nodes{} : stream->last;
    return result;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    ENTER();
    return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
    ENTER();
    if (!events.has(begin) || !events.has(end)) return CUDA_ERROR_INVALID_HANDLE;
    if ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
    if (!begin->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
    if (!begin->when || !end->when) return CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(*end->when - *begin->when).count();
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
    ENTER();
    if (!streams.has(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    join(stream, std::make_shared<Capture>(Capture{stream, {}, {}}));
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    ENTER();
    *graph = nullptr;
    if (!streams.has(stream) || !stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    const std::shared_ptr<Capture> capture = stream->capture;
    if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    const bool joined = needed_for(stream->last).size() == capture->nodes.size();
    for (CUstream each : capture->streams) {
        if (!streams.has(each)) continue;
        each->last.swap(each->outside);
        each->outside.clear();
        each->capture = nullptr;
    }
    if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *graph = graphs.add(new CUgraph_st{capture->nodes});
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
    ENTER();
    if (!graphs.has(graph)) return CUDA_ERROR_INVALID_HANDLE;
    *executable = executables.add(new CUgraphExec_st{graph->nodes});
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
    ENTER();
    return graphs.remove(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
    ENTER();
    return executables.remove(executable) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
    ENTER();
    const bool known = executables.has(executable) && streams.has(stream);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    ENTER();
    if (!executables.has(executable)) return CUDA_ERROR_INVALID_HANDLE;
    return add(stream, [nodes = executable->nodes] { return run(nodes); });
}
}
