"""CUDA C++ on a CPU: compiles one .cu file to a program that observes itself, without a GPU.

    rewriter.py      CUDA's own syntax to C++ that g++ accepts; lines never shift
        launches.py      kernel<<<grid, block>>>(...)
        kernels.py       the declared kernels, and which are templates or overloaded
        ptx.py           inline assembly (PTX) that is known, as C++
        variables.py     extern __shared__, __device__ and __constant__ variables
        edits.py         replacements of text that keep line breaks
    lexer.py         C++ source to tokens and preprocessor lines, for the policy too
    tokens.py        the same for the rewriter: code, and the bodies of macros
    unsupported.py   what is recognised and refused, with its line
    isolation.py     functions whose bodies use what is refused, made to end the run
    conditions.py    code that the emulator's compiler may see differently from nvcc
    toolchain.py     g++, the precompiled header and the prebuilt runtime
    joining.py       our own objects to one
    nvcc_runtime.py  our part of a planner whose host code nvcc compiles
    build.py         a .cu to programs, problems and a site table
    assembly.py      changes of a submission's assembly
    linking.py       an object to a planner and an executor, or to one program
    kernel_symbols.py    the kernels among an object's functions
    compiler_output.py   g++'s messages in the student's terms
    glue.py          the generated sources: the table of entries, the check of their signatures
    elf.py           symbols and relocations of an object
    objects.py       the symbols that an object may define and use
    sites.py         return address to line
    report.py        a run's report, read as untrusted bytes
    include/         the CUDA headers
    runtime/         execution and observation

It imports nothing from the rest of the grader, since it is also loaded by path inside the sandbox.
"""
