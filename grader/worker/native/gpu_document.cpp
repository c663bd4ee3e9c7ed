#include "gpu_document.h"

namespace warpgrade::host {
namespace {

constexpr std::uint32_t magic = 0x50475457, version = 1;  // "WTGP"
constexpr std::uint32_t cooperative = 1, programmatic = 2;

GlobalVariable read_variable(Reader& fields) {
    std::string name = fields.bytes();
    return {std::move(name), fields.value<std::uint64_t>()};
}

PlanModule read_module(Reader& fields) {
    std::string cubin = fields.bytes();
    return {std::move(cubin), fields.list(read_variable)};
}

PlanBuffer read_buffer(Reader& fields) {
    PlanBuffer buffer{};
    buffer.argument = fields.value<std::int32_t>();
    buffer.kind = static_cast<BufferKind>(fields.number());
    if (buffer.kind > BufferKind::symbol) throw BadDocument("an unknown kind of buffer");
    buffer.bytes = fields.value<std::uint64_t>();
    buffer.module = fields.number();
    buffer.name = fields.bytes();
    return buffer;
}

PlanKernel read_kernel(Reader& fields) {
    PlanKernel kernel{};
    kernel.module = fields.number();
    kernel.name = fields.bytes();
    kernel.most_shared = fields.number();
    return kernel;
}

TensorMap read_map(Reader& fields) {
    TensorMap map{};
    map.at = fields.number();
    map.buffer = fields.number();
    map.offset = fields.value<std::int64_t>();
    map.type = fields.number();
    map.rank = fields.number();
    if (map.rank < 1 || map.rank > 5) throw BadDocument("a descriptor of that rank");
    map.swizzle = fields.number();
    map.fill = fields.number();
    map.sizes = fields.several<std::uint64_t, 5>();
    map.strides = fields.several<std::uint64_t, 5>();
    map.box = fields.several<std::uint32_t, 5>();
    return map;
}

void read_launch(Reader& fields, PlanStep& step) {
    step.number = fields.number();
    step.grid = fields.several<std::uint32_t, 3>();
    step.block = fields.several<std::uint32_t, 3>();
    step.cluster = fields.several<std::uint32_t, 3>();
    step.shared = fields.number();
    const std::uint32_t flags = fields.number();
    step.cooperative = flags & cooperative;
    step.programmatic = flags & programmatic;
    step.data = fields.bytes();
    step.pointers = fields.list(read_relocation);
    step.maps = fields.list(read_map);
}

PlanStep read_step(Reader& fields) {
    PlanStep step{};
    step.what = static_cast<Do>(fields.number());
    step.stream = fields.number();
    switch (step.what) {
        case Do::fill:
            step.to = read_rows(fields);
            step.unit = fields.number();
            step.number = fields.number();
            break;
        case Do::copy:
            step.to = read_rows(fields);
            step.from = read_rows(fields);
            break;
        case Do::upload:
            step.to = read_rows(fields);
            step.data = fields.bytes();
            step.pointers = fields.list(read_relocation);
            break;
        case Do::launch: read_launch(fields, step); break;
        case Do::record:
        case Do::wait: step.number = fields.number(); break;
        default: throw BadDocument("an unknown step");
    }
    return step;
}

}  // namespace

PlanDocument read_plan(const std::string& text) {
    Reader fields(text);
    if (fields.number() != magic || fields.number() != version) {
        throw BadDocument("not a plan of this version");
    }
    PlanDocument plan;
    plan.modules = fields.list(read_module);
    plan.buffers = fields.list(read_buffer);
    plan.kernels = fields.list(read_kernel);
    plan.calls = fields.list([](Reader& each) { return each.list(read_step); });
    if (plan.calls.empty() || plan.calls.size() > 2) throw BadDocument("a plan of no call");
    if (!fields.at_end()) throw BadDocument("bytes behind the last call");
    return plan;
}

}  // namespace warpgrade::host
