"""CUDA C++ without a GPU: a file is compiled, its host code planned, its kernels emulated."""
