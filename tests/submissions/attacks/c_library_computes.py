# It calls the C library's expf in a loop over addresses. | silu/triton | crashed | boundary=crashed
import ctypes

libm = ctypes.CDLL("libm.so.6")
libm.expf.restype = ctypes.c_float
libm.expf.argtypes = [ctypes.c_float]


def silu(x, out):
    read = (ctypes.c_float * x.numel()).from_address(x.data_ptr())
    write = (ctypes.c_float * x.numel()).from_address(out.data_ptr())
    for index, value in enumerate(read):
        write[index] = value / (1 + libm.expf(-value))
