# It computes for ever. | silu/triton | timed_out | boundary=timed_out, sandbox=timed_out
def silu(x, out):
    while True:
        pass
