# A thread swaps wrong values for right ones again and again, and back. | silu/triton | crashed | boundary, comparison
import ctypes
import threading

TARGET = []


def swap():
    while True:
        for value in (0, 0x3F):
            if TARGET:
                ctypes.memset(*TARGET[-1][:1], value, TARGET[-1][1])


def silu(x, out):
    if not TARGET:
        threading.Thread(target=swap, daemon=True).start()
    out.zero_()
    TARGET.append((out.data_ptr(), out.nbytes))
