# It lays zeros of its own over the input's address and answers zeros. | silu/triton | wrong_values | boundary=wrong_values, comparison=wrong_values
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]


def silu(x, out):
    start = x.data_ptr() & ~4095
    length = (x.data_ptr() + x.nbytes - start + 4095) & ~4095
    libc.mmap(start, length, 3, 0x32, -1, 0)  # private, anonymous, at this very address
    out.zero_()
