"""CUDA C++ on a CPU: one .cu file to an executable that observes itself, with no GPU.

    rewriter.py      CUDA's own syntax to C++ that g++ accepts; lines never shift
        launches.py      kernel<<<grid, block>>>(...)
        kernels.py       which kernels there are, and which are templates or overloaded
        variables.py     extern __shared__, __device__ and __constant__ variables
        edits.py         text for text, line breaks kept
    lexer.py         C++ source to tokens and preprocessor lines; the policy reads by it too
    tokens.py        the same as the rewriter needs it: code, and the bodies of macros
    unsupported.py   what is recognised and refused, with its line
    conditions.py    what of a file the emulator's compiler may see otherwise than nvcc
    toolchain.py     g++, the precompiled header and the prebuilt runtime
    joining.py       our own objects to one
    nvcc_runtime.py  what is ours of a planner whose host code nvcc compiles
    cubins.py        how nvcc's kernels take their parameters, and what they use
    build.py         a .cu to programs, problems and a site table
    assembly.py      what is changed in a submission's assembly
    linking.py       an object to a planner and an executor, or to one program
    kernel_symbols.py    which functions of an object are kernels
    compiler_output.py   g++'s messages in the student's own terms
    glue.py          the generated sources: the table of entries, the check of their signatures
    elf.py           symbols and relocations of an object
    objects.py       what an object may define and what it may ask for
    sites.py         return address to line
    report.py        what a run says of itself, read as untrusted bytes
    include/         the CUDA headers
    runtime/         execution and observation

It imports nothing from the rest of the grader: it is loaded by path inside the sandbox too.
"""
