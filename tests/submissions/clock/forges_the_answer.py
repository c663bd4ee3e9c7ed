# A thread writes to the page that a request is answered, before it is. | 10 | any | not_written
import ctypes
import threading
import time

import torch.nn.functional as F


def page():
    for line in open("/proc/self/maps"):
        if "memfd:page" in line:
            return int(line.split("-")[0], 16)


words = (ctypes.c_uint64 * 16).from_address(page())


def forge():
    while True:
        if words[2] > words[0]:  # announced, and not asked yet
            words[8] = words[2]
        time.sleep(0)


def silu(x, out):
    if words[0] == 3:
        threading.Thread(target=forge, daemon=True).start()
    time.sleep(0.02)
    out.copy_(F.silu(x))
