# A thread swaps wrong values for right ones again and again, and back. | silu/triton | crashed | boundary, comparison
import ctypes
import threading

TARGET = []
SWAPPING = []


def swap():
    while True:
        for value in (0, 0x3F):
            if TARGET:
                ctypes.memset(*TARGET[-1][:1], value, TARGET[-1][1])


def silu(x, out):
    if not SWAPPING:
        SWAPPING.append(threading.Thread(target=swap, daemon=True))
        SWAPPING[0].start()
    out.zero_()
    TARGET.append((out.data_ptr(), out.nbytes))
    SWAPPING[0].join(10)  # so that it has a turn before this call has ended
