"""What stands in for a submission: what candidates are timed against, and what does nothing.

Trusted code in an untrusted place: it runs as a submission does, so that both pay the same for the
way there and back.
"""


def copy(source, destination):
    """Move bytes: `destination` becomes `source`; uint8 of equal length."""
    destination.copy_(source)


def matmul(a, b, out):
    """The vendor's matrix product, float32 in full precision."""
    import torch

    torch.mm(a, b, out=out)


def matmul_tf32(a, b, out):
    """The same of float32 matrices on tensor cores that round them to TF32."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.mm(a, b, out=out)


def ballast(free_bytes):
    """Take GPU memory until no more than `free_bytes` are free, and hold it."""
    import torch

    while (more := torch.cuda.mem_get_info()[0] - free_bytes) > 0:
        # A whole page of the device's at least, or nothing would change.
        _held.append(torch.empty(max(more, 2 << 20), dtype=torch.uint8, device="cuda"))


_held = []  # for as long as the process lives


def nothing(*arguments):
    """Serve a request without a part in it: does the worker itself work?"""
