#include "arguments.h"

#include <climits>
#include <cstring>

namespace warpgrade::host {
namespace {

std::size_t bytes_of(std::uint8_t dtype) {
    switch (static_cast<DType>(dtype)) {
        case DType::float64:
        case DType::int64:
        case DType::uint64: return 8;
        case DType::float32:
        case DType::int32:
        case DType::uint32: return 4;
        case DType::float16:
        case DType::bfloat16:
        case DType::int16:
        case DType::uint16: return 2;
        case DType::int8:
        case DType::uint8:
        case DType::boolean:
        case DType::float8_e4m3fn:
        case DType::float8_e5m2: return 1;
    }
    throw BadRequest("dtype " + std::to_string(dtype));
}

// Bytes from the first element to the last, inclusive. Sizes are untrusted, so every step is
// checked for overflow; 2^48 elements exceed any address space.
std::size_t extent_of(const Argument& argument) {
    constexpr __int128 limit = __int128(1) << 48;
    __int128 elements = 1;
    bool empty = false;
    for (std::size_t axis = 0; axis < argument.rank; ++axis) {
        const std::int64_t size = argument.shape[axis], stride = argument.strides[axis];
        if (size < 0 || stride < 0) throw BadRequest("a negative size or stride");
        empty = empty || size == 0;
        elements += __int128(size > 0 ? size - 1 : 0) * stride;
        if (elements > limit) throw BadRequest("a tensor larger than memory");
    }
    return empty ? 0 : static_cast<std::size_t>(elements) * bytes_of(argument.dtype);
}

bool lies_inside(std::size_t start, std::size_t length, std::size_t first, std::size_t room) {
    return start >= first && start - first <= room && length <= room - (start - first);
}

void check_place(const Tensor& tensor, const std::vector<Buffer>& buffers) {
    if (tensor.buffer >= buffers.size()) {
        throw BadRequest("buffer " + std::to_string(tensor.buffer));
    }
    const std::size_t length = buffers[tensor.buffer].length;
    if (!lies_inside(tensor.allocation_offset, tensor.allocation_length, 0, length)) {
        throw BadRequest("an allocation outside its buffer");
    }
    if (!lies_inside(tensor.offset, tensor.extent, tensor.allocation_offset,
                     tensor.allocation_length)) {
        throw BadRequest("a tensor outside its allocation");
    }
}

Tensor read_tensor(const Argument& argument, const std::vector<Buffer>& buffers, bool placed) {
    if (argument.rank > max_rank) throw BadRequest("rank " + std::to_string(argument.rank));
    const auto space = static_cast<Space>(argument.space);
    if (space != Space::device && space != Space::host) {
        throw BadRequest("space " + std::to_string(argument.space));
    }
    if (argument.buffer < 0) throw BadRequest("buffer " + std::to_string(argument.buffer));
    Tensor tensor{};
    tensor.buffer = static_cast<std::size_t>(argument.buffer);
    tensor.offset = argument.offset;
    tensor.extent = extent_of(argument);
    tensor.allocation_offset = argument.allocation_offset;
    tensor.allocation_length = argument.allocation_length;
    tensor.host_space = space == Space::host;
    // A tensor in host memory is real even for a planner, if it has a buffer.
    const bool has_memory = tensor.host_space && tensor.buffer < buffers.size();
    if (placed || has_memory) check_place(tensor, buffers);
    return tensor;
}

// Appends the tensor of argument number `index`, with its description.
void add_tensor(Call& call, std::size_t index, const Argument& argument,
                const std::vector<Buffer>& buffers, const std::vector<Description>& descriptions,
                bool placed) {
    Tensor tensor = read_tensor(argument, buffers, placed);
    tensor.argument = static_cast<int>(index);
    const bool writable = tensor.buffer >= buffers.size() || buffers[tensor.buffer].writable;
    tensor.description =
        index < descriptions.size()
            ? descriptions[index]
            : Description{"argument " + std::to_string(index + 1), !writable, writable};
    call.tensors.push_back(tensor);
    call.values.push_back({});
}

warpgrade_value read_scalar(const Argument& argument, char letter) {
    const auto kind = static_cast<Kind>(argument.kind);
    const auto integer = static_cast<std::int64_t>(argument.scalar_bits);
    double number;
    std::memcpy(&number, &argument.scalar_bits, sizeof number);
    warpgrade_value value{};
    if (letter == 'i' && kind == Kind::int64) {
        if (integer < INT_MIN || integer > INT_MAX) {
            throw BadRequest(std::to_string(integer) + " doesn't fit in an int");
        }
        value.integer = static_cast<int>(integer);
    } else if (letter == 'l' && kind == Kind::int64) {
        value.long_integer = integer;
    } else if (letter == 'f' && kind == Kind::float64) {
        value.float32 = static_cast<float>(number);
    } else if (letter == 'd' && kind == Kind::float64) {
        value.float64 = number;
    } else if (letter == 'b' && kind == Kind::boolean) {
        value.boolean = integer != 0;
    } else {
        throw BadRequest("an argument of kind " + std::to_string(argument.kind) +
                         " where the entry takes '" + letter + "'");
    }
    return value;
}

}  // namespace

Call read_call(const Request& request, const warpgrade_entry& entry,
               const std::vector<Buffer>& buffers,
               const std::vector<Description>& descriptions) {
    if (request.argument_count != std::strlen(entry.arguments)) {
        throw BadRequest(std::to_string(request.argument_count) +
                         " arguments where the entry takes " +
                         std::to_string(std::strlen(entry.arguments)));
    }
    Call call;
    call.entry = &entry;
    for (std::size_t index = 0; index < request.argument_count; ++index) {
        const Argument& argument = request.arguments[index];
        const char letter = entry.arguments[index];
        if (letter == 'p' && static_cast<Kind>(argument.kind) == Kind::tensor) {
            add_tensor(call, index, argument, buffers, descriptions, false);
        } else {
            call.values.push_back(read_scalar(argument, letter));
        }
    }
    return call;
}

Call read_tensors(const Request& request, const std::vector<Buffer>& buffers,
                  const std::vector<Description>& descriptions) {
    Call call;
    for (std::size_t index = 0; index < request.argument_count; ++index) {
        if (static_cast<Kind>(request.arguments[index].kind) == Kind::tensor) {
            add_tensor(call, index, request.arguments[index], buffers, descriptions, true);
        } else {
            call.values.push_back({});
        }
    }
    return call;
}

}  // namespace warpgrade::host
