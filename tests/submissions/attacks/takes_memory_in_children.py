# Its children take memory, each a little less than is allowed. | silu/triton | out_of_memory | sandbox=out_of_memory, boundary=out_of_memory
import os
import time


def silu(x, out):
    for _ in range(12):
        if os.fork() == 0:
            kept = bytearray(b"x" * (160 << 20))
            time.sleep(60)
            os._exit(len(kept) % 2)
    time.sleep(60)
