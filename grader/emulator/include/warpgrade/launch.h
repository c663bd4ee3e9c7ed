// What the rewriter makes of `kernel<<<grid, block, shared, stream>>>(arguments)`:
//
//     ::warpgrade::launcher("kernel", grid, block, shared, stream)(kernel)(arguments)
//
// The second call knows the kernel's parameter types, so that `0` and `NULL` convert to pointers as
// in CUDA. Where the kernel's type follows from the arguments only (a template's arguments are
// deduced, the name is overloaded, parameters have defaults), the second call is
// `.deduced(lambda)`.
#ifndef WARPGRADE_LAUNCH_H
#define WARPGRADE_LAUNCH_H

#include <tuple>
#include <type_traits>
#include <utility>

#include "declarations.h"

namespace warpgrade {

// Bytes of the parameters as CUDA lays them out, each aligned to its own type.
template <class... P>
constexpr size_t parameter_bytes() {
    size_t bytes = 0;
    ((bytes = (bytes + alignof(P) - 1) / alignof(P) * alignof(P) + sizeof(P)), ...);
    return bytes;
}

struct LaunchShape {
    const char* kernel;
    dim3 grid, block;
    size_t dynamic_shared;
    cudaStream_t stream;
};

// What a launch hands to every thread: the function, then copies of the parameters.
template <class F, class... P>
struct LaunchContext {
    F function;
    std::tuple<P...> parameters;

    template <size_t... I>
    WARPGRADE_UNSEEN void call(std::index_sequence<I...>) {
        function(static_cast<P>(std::get<I>(parameters))...);
    }
    WARPGRADE_UNSEEN static void thunk(void* context) {
        static_cast<LaunchContext*>(context)->call(std::index_sequence_for<P...>());
    }
};

template <class F, class... P>
WARPGRADE_INLINE void launch(const LaunchShape& shape, const void* address,
                             LaunchContext<F, P...>& context) {
    warpgrade_launch(address, shape.kernel, shape.grid, shape.block, shape.dynamic_shared,
                     shape.stream, &LaunchContext<F, P...>::thunk, &context, sizeof context,
                     parameter_bytes<P...>());
}

template <class... P>
struct Kernel {
    LaunchShape shape;
    void (*function)(P...);

    WARPGRADE_INLINE void operator()(P... parameters) const {
        LaunchContext<void (*)(P...), P...> context{
            function, std::tuple<P...>(static_cast<P&&>(parameters)...)};
        launch(shape, reinterpret_cast<const void*>(function), context);
    }
};

template <class F>
struct DeducedKernel {
    LaunchShape shape;
    F call;

    template <class... A>
    WARPGRADE_INLINE void operator()(A&&... arguments) const {
        LaunchContext<F, std::decay_t<A>...> context{
            call, std::tuple<std::decay_t<A>...>(static_cast<A&&>(arguments)...)};
        launch(shape, nullptr, context);
    }
};

struct launcher {
    LaunchShape shape;

    WARPGRADE_INLINE launcher(const char* kernel, dim3 grid, dim3 block, size_t dynamic_shared = 0,
                              cudaStream_t stream = nullptr)
        : shape{kernel, grid, block, dynamic_shared, stream} {}

    template <class... P>
    WARPGRADE_INLINE Kernel<P...> operator()(void (*function)(P...)) const {
        return {shape, function};
    }
    template <class F>
    WARPGRADE_INLINE DeducedKernel<F> deduced(F call) const {
        return {shape, call};
    }
};

}  // namespace warpgrade

#endif
