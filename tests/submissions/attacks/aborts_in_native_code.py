# It frees what it doesn't own, so that the C library ends the process. | silu/triton | crashed | sandbox=crashed, boundary=crashed
import ctypes


def silu(x, out):
    ctypes.CDLL(None).free(ctypes.c_void_p(x.data_ptr()))
    ctypes.string_at(8)
