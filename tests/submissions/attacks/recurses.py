# It raises Python's limit and calls itself until the stack is full. | silu/triton | crashed | sandbox=crashed, boundary=crashed
import sys

sys.setrecursionlimit(1 << 30)


def deeper(value):
    return list(map(deeper, [value]))


def silu(x, out):
    deeper(x)
