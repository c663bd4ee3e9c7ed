# It writes zeros, which a tolerance wider than the values would let pass. | silu/triton | wrong_values | comparison=wrong_values
def silu(x, out):
    out.zero_()
