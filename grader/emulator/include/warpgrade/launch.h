// The rewriter turns `kernel<<<grid, block, shared, stream>>>(arguments)` into:
//
//     ::warpgrade::launcher("kernel", grid, block, shared, stream)(kernel)(arguments)
//
// The second call knows the kernel's parameter types, so that `0` and `NULL` convert to pointers as
// in CUDA. Where the kernel's type can only be deduced from the arguments (a template's arguments
// are deduced, the name is overloaded, parameters have defaults), the second call is
// `.deduced(lambda)`.
#ifndef WARPGRADE_LAUNCH_H
#define WARPGRADE_LAUNCH_H

#include <new>
#include <type_traits>
#include <utility>

#include "declarations.h"

namespace warpgrade {

// The offset of parameter number `index` in CUDA's layout, each aligned to its own type; for a
// number one too high, the end of the last one.
template <class... P>
constexpr size_t parameter_offset(size_t index) {
    const size_t sizes[] = {sizeof(P)..., 0}, alignments[] = {alignof(P)..., 1};
    size_t offset = 0;
    for (size_t i = 0; i <= index; ++i) {
        offset = (offset + alignments[i] - 1) / alignments[i] * alignments[i];
        if (i < index) offset += sizes[i];
    }
    return offset;
}

struct LaunchShape {
    const char* kernel;
    dim3 grid, block;
    size_t dynamic_shared;
    cudaStream_t stream;
};

// A kernel's parameters as bytes. Padding is zero, so that equal parameters are equal bytes.
template <class... P>
struct Parameters {
    static constexpr size_t bytes = parameter_offset<P...>(sizeof...(P));
    alignas(16) char data[bytes ? bytes : 1] = {};

    WARPGRADE_UNSEEN explicit Parameters(const P&... values) {
        put(std::index_sequence_for<P...>(), values...);
    }

private:
    template <size_t... I>
    WARPGRADE_UNSEEN void put(std::index_sequence<I...>, const P&... values) {
        (put_one<P>(data + parameter_offset<P...>(I), values), ...);
    }
    template <class T>
    WARPGRADE_UNSEEN static void put_one(char* where, const T& value) {
        [[maybe_unused]] T* copy = new (where) T(value);
#if __has_builtin(__builtin_clear_padding)
        if constexpr (std::is_trivially_copyable_v<T>) __builtin_clear_padding(copy);
#endif
    }
};

template <class T>
WARPGRADE_UNSEEN const T& parameter_at(const char* parameters, size_t offset) {
    return *reinterpret_cast<const T*>(parameters + offset);
}

// The work of every thread of a launch, as a `warpgrade_thunk`: the kernel, on copies of the
// parameters. The build finds an object's thunks by this name (kernel_symbols.py).
template <class... P>
struct KernelThunk {
    WARPGRADE_UNSEEN static void thunk(const void* function, const char* parameters) {
        call(function, parameters, std::index_sequence_for<P...>());
    }

private:
    template <size_t... I>
    WARPGRADE_UNSEEN static void call(const void* function, const char* parameters,
                                      std::index_sequence<I...>) {
        reinterpret_cast<void (*)(P...)>(const_cast<void*>(function))(
            parameter_at<P>(parameters, parameter_offset<P...>(I))...);
    }
};

// The same for a kernel that F, a function object without a state, names.
template <class F, class... P>
struct DeducedKernelThunk {
    WARPGRADE_UNSEEN static void thunk(const void*, const char* parameters) {
        call(parameters, std::index_sequence_for<P...>());
    }

private:
    template <size_t... I>
    WARPGRADE_UNSEEN static void call(const char* parameters, std::index_sequence<I...>) {
        char nothing = 0;
        reinterpret_cast<F&>(nothing)(parameter_at<P>(parameters, parameter_offset<P...>(I))...);
    }
};

template <class... P>
WARPGRADE_INLINE void launch(const LaunchShape& shape, const void* function, warpgrade_thunk thunk,
                             const Parameters<P...>& parameters) {
    warpgrade_launch(function, thunk, shape.kernel, shape.grid, shape.block, shape.dynamic_shared,
                     shape.stream, parameters.data, parameters.bytes);
}

template <class... P>
struct Kernel {
    LaunchShape shape;
    void (*function)(P...);

    WARPGRADE_INLINE void operator()(P... parameters) const {
        launch(shape, reinterpret_cast<const void*>(function), &KernelThunk<P...>::thunk,
               Parameters<P...>(parameters...));
    }
};

template <class F>
struct DeducedKernel {
    LaunchShape shape;
    F call;

    template <class... A>
    WARPGRADE_INLINE void operator()(A&&... arguments) const {
        launch(shape, nullptr, &DeducedKernelThunk<F, std::decay_t<A>...>::thunk,
               Parameters<std::decay_t<A>...>(static_cast<A&&>(arguments)...));
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

// `kernel->*configuration(grid, block)(arguments)`: of a macro that has a configuration alone.
template <class F>
struct Launch {
    F of;
};
template <class... P, class F>
WARPGRADE_INLINE void operator->*(void (*kernel)(P...), const Launch<F>& launch) {
    launch.of(kernel);
}
struct configuration {
    launcher configured;

    WARPGRADE_INLINE configuration(dim3 grid, dim3 block, size_t dynamic_shared = 0,
                                   cudaStream_t stream = nullptr)
        : configured("", grid, block, dynamic_shared, stream) {}

    template <class... A>
    WARPGRADE_INLINE auto operator()(A&&... arguments) const {
        auto of = [&, start = configured](auto kernel) WARPGRADE_UNSEEN {
            start(kernel)(static_cast<A&&>(arguments)...);
        };
        return Launch<decltype(of)>{of};
    }
};

}  // namespace warpgrade

// ---- Launches by a call -------------------------------------------------------------------------

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};
typedef cudaLaunchConfig_t cudaLaunchConfig_st;

namespace warpgrade {

// Whether the attributes make a launch cooperative; ends the entry for one that isn't modelled.
WARPGRADE_INLINE bool is_cooperative(const cudaLaunchConfig_t& config) {
    bool cooperative = false;
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const cudaLaunchAttribute& each = config.attrs[i];
        if (each.id == cudaLaunchAttributeCooperative) {
            cooperative = each.val.cooperative;
        } else if (each.id == cudaLaunchAttributeClusterDimension) {
            const auto& size = each.val.clusterDim;
            if (size.x * size.y * size.z > 1) warpgrade_unsupported("thread block clusters");
        } else if (each.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
            warpgrade_unsupported("programmatic launches");
        }  // the others are hints
    }
    return cooperative;
}

template <class... P>
WARPGRADE_INLINE cudaError_t launch_by_call(const cudaLaunchConfig_t& config,
                                            void (*function)(P...), bool cooperative,
                                            const Parameters<P...>& parameters) {
    const cudaError_t before = cudaPeekAtLastError();
    warpgrade_launch((const void*)function, &KernelThunk<P...>::thunk, "", config.gridDim,
                     config.blockDim, config.dynamicSmemBytes, config.stream, parameters.data,
                     parameters.bytes, cooperative);
    return before == cudaSuccess ? cudaPeekAtLastError() : before;
}

template <class... P, size_t... I>
WARPGRADE_INLINE cudaError_t launch_by_call(const cudaLaunchConfig_t& config,
                                            void (*function)(P...), void** arguments,
                                            bool cooperative, std::index_sequence<I...>) {
    return launch_by_call(
        config, function, cooperative,
        Parameters<P...>(*static_cast<std::remove_const_t<P>*>(arguments[I])...));
}

}  // namespace warpgrade

template <class... P>
WARPGRADE_INLINE cudaError_t cudaLaunchKernel(void (*function)(P...), dim3 grid, dim3 block,
                                              void** arguments, size_t shared = 0,
                                              cudaStream_t stream = nullptr) {
    return warpgrade::launch_by_call({grid, block, shared, stream, nullptr, 0}, function, arguments,
                                     false, std::index_sequence_for<P...>());
}
template <class... P>
WARPGRADE_INLINE cudaError_t cudaLaunchCooperativeKernel(void (*function)(P...), dim3 grid,
                                                         dim3 block, void** arguments,
                                                         size_t shared = 0,
                                                         cudaStream_t stream = nullptr) {
    return warpgrade::launch_by_call({grid, block, shared, stream, nullptr, 0}, function, arguments,
                                     true, std::index_sequence_for<P...>());
}
template <class... P>
WARPGRADE_INLINE cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config,
                                                 void (*function)(P...), void** arguments) {
    return warpgrade::launch_by_call(*config, function, arguments,
                                     warpgrade::is_cooperative(*config),
                                     std::index_sequence_for<P...>());
}
template <class... P, class... A>
WARPGRADE_INLINE cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                                                void (*function)(P...), A&&... arguments) {
    return warpgrade::launch_by_call(
        *config, function, warpgrade::is_cooperative(*config),
        warpgrade::Parameters<P...>(static_cast<A&&>(arguments)...));
}

// A pointer without a type doesn't say what the kernel's parameters are.
#define WARPGRADE_UNTYPED(name)                                                    \
    template <class... Arguments>                                                  \
    WARPGRADE_INLINE cudaError_t name(const void*, Arguments&&...) {               \
        warpgrade_unsupported(#name " of a kernel that is a void* before the call"); \
    }
WARPGRADE_UNTYPED(cudaLaunchKernel)
WARPGRADE_UNTYPED(cudaLaunchCooperativeKernel)
#undef WARPGRADE_UNTYPED

#endif
