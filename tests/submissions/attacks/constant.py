# It writes one plausible constant everywhere. | silu/triton | wrong_values | comparison=wrong_values
def silu(x, out):
    out.fill_(0.25)
