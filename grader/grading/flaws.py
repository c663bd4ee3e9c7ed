"""Known mistakes in what the lessons teach, computed in torch: online softmax, blocks, averages.

A flaw belongs to an exercise's oracle, by name. It takes the oracle's arguments, in float64, and
returns the outputs that a kernel with this mistake has. What depends on the size of a block is
listed once for each size that kernels use.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch

Compute = Callable[..., Sequence[torch.Tensor]]
Carried = Literal[
    "nothing_wrong",
    "sum_not_rescaled",
    "acc_not_rescaled",
    "wrong_way",
    "new_rescaled",
    "from_zero",
    "maximum_not_kept",
    "maximum_of_block",
    "sum_anew",
    "acc_anew",
    "all_anew",
    "acc_and_new_rescaled",
    "first_block_missing",
]
BLOCKS = (16, 32, 64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True)
class Flaw:
    """A mistake: its words for the student, and what a kernel with it computes."""

    name: str
    what: str  # a sentence without its stop
    advice: str  # a sentence
    compute: Compute


# --- online softmax ----------------------------------------------------------------------------


def _online(
    scores: torch.Tensor,
    v: torch.Tensor | None,
    block: int,
    carried: Carried,
    padded: float,
    factor: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(maximum, sum, weighted v) after all blocks of the last dimension.

    Scores behind the end of the last block are `padded`, and the exponent that rescales the sums
    has the factor `factor`. In float32, where exponentials of what is far from the maximum are 0 or
    infinite.
    """
    scores = scores.float()
    v = v.float() if v is not None else None
    n = scores.shape[-1]
    lead = scores.shape[:-1]
    start = 0.0 if carried == "from_zero" else -math.inf
    m = scores.new_full((*lead, 1), start)
    total = scores.new_zeros((*lead, 1))
    acc = scores.new_zeros((*lead, v.shape[-1] if v is not None else 1))
    for first in range(block if carried == "first_block_missing" else 0, n, block):
        part = scores[..., first : first + block]
        if padded != -math.inf and part.shape[-1] < block:
            part = torch.nn.functional.pad(part, (0, block - part.shape[-1]), value=padded)
        largest = part.amax(-1, keepdim=True)
        new = largest if carried == "maximum_of_block" else torch.maximum(m, largest)
        alpha = torch.exp(factor * (new - m if carried == "wrong_way" else m - new))
        p = torch.exp(part - new)
        if carried == "new_rescaled":
            total = (total + p.sum(-1, keepdim=True)) * alpha
        else:
            kept = 0.0 if carried in ("sum_anew", "all_anew") else alpha
            total = total * (1.0 if carried == "sum_not_rescaled" else kept)
            total = total + p.sum(-1, keepdim=True)
        if v is not None:
            kept = 0.0 if carried in ("acc_anew", "all_anew") else alpha
            acc = acc * (1.0 if carried == "acc_not_rescaled" else kept)
            added = p * alpha if carried == "acc_and_new_rescaled" else p
            acc = acc + added[..., : v.shape[-2] - first] @ v[..., first : first + block, :]
        if carried != "maximum_not_kept":
            m = new
    return m, total, acc


_ONLINE: Mapping[Carried, tuple[str, str]] = {
    "sum_not_rescaled": (
        "The running sum isn't rescaled when a later block has the larger maximum",
        "Multiply the old sum by exp(m_old - m_new) before the new block's terms are added.",
    ),
    "acc_not_rescaled": (
        "The accumulator isn't rescaled when a later block has the larger maximum",
        "Multiply acc by exp(m_old - m_new), as the sum is, before the new product is added.",
    ),
    "wrong_way": (
        "The old sum is rescaled the wrong way, by exp(m_new - m_old)",
        "The factor is exp(m_old - m_new), which is at most 1.",
    ),
    "new_rescaled": (
        "The new block's terms are rescaled together with the old sum",
        "They are relative to the new maximum already: only the old sum is multiplied by "
        "exp(m_old - m_new).",
    ),
    "from_zero": (
        "The maximum is too large where all elements are below 0, as is one that begins at 0",
        "A running maximum begins at -inf, and masked elements are -inf.",
    ),
    "maximum_not_kept": (
        "The new maximum isn't kept from block to block",
        "Assign it to the running maximum at the end of the loop.",
    ),
    "maximum_of_block": (
        "The maximum is the block's own: the larger one of earlier blocks is forgotten",
        "Take the maximum of the running maximum and the block's.",
    ),
}
_ADD = "Rescale the old one by exp(m_old - m_new), and add the new block's terms to it."
_SUMS_OF_BLOCKS: Mapping[Carried, tuple[str, str]] = {
    "sum_anew": ("In the running sum only the last block counts: each block begins it anew", _ADD),
    "first_block_missing": (
        "The first block of each row is missing in the maximum and in the sum",
        "Where does the loop over the blocks begin?",
    ),
}
_OF_ACCUMULATORS: Mapping[Carried, tuple[str, str]] = {
    "acc_anew": ("In the accumulator only the last block counts: each block begins it anew", _ADD),
    "all_anew": ("Only the last block counts: each block begins sum and accumulator anew", _ADD),
    "acc_and_new_rescaled": (
        "The new block's product is rescaled together with the accumulator",
        _ADD,
    ),
}


def _online_flaws(
    computing: Callable[..., Compute], those: Mapping[Carried, tuple[str, str]] = _ONLINE
) -> Iterator[Flaw]:
    for carried, (what, advice) in those.items():
        for block in BLOCKS:
            yield Flaw(carried, what, advice, computing(block=block, carried=carried))


def _padded_flaws(computing: Callable[..., Compute], where: str) -> Iterator[Flaw]:
    for block in (0, *BLOCKS):
        yield Flaw(
            "padding_counts",
            f"Masked elements past the end {where} count in the maximum or in the sum",
            "In their place -inf has to count, so that the exponential is 0.",
            computing(block=block, carried="nothing_wrong", padded=0.0),
        )


def _softmax_in_blocks(
    x: torch.Tensor, block: int, carried: Carried, padded: float = -math.inf
) -> Sequence[torch.Tensor]:
    m, total, _ = _online(x, None, block or _power(x.shape[-1]), carried, padded)
    return [torch.exp(x.float() - m) / total]


def _power(n: int) -> int:
    """The next power of two."""
    return 1 << max(n - 1, 0).bit_length()


def _softmax_unshifted(x: torch.Tensor) -> Sequence[torch.Tensor]:
    e = torch.exp(x.float())
    return [e / e.sum(-1, keepdim=True)]


def _softmax_scaled_first(x: torch.Tensor) -> Sequence[torch.Tensor]:
    scaled = x.float() * math.log2(math.e)
    p = torch.exp2((scaled - scaled.amax(-1, keepdim=True)).double())
    return [p / p.sum(-1, keepdim=True)]


def _softmax_of_parts(x: torch.Tensor, parts: int) -> Sequence[torch.Tensor]:
    """Each part's sum is relative to its own maximum, and they are added as they are."""
    n = x.shape[-1]
    padded = torch.nn.functional.pad(x.float(), (0, -n % parts), value=-math.inf)
    own = padded.reshape(*x.shape[:-1], -1, parts)
    m = own.amax(-2, keepdim=True)
    sums = torch.exp(own - m.nan_to_num(neginf=0.0)).sum(-2)
    return [torch.exp(x - x.amax(-1, keepdim=True)) / sums.sum(-1, keepdim=True)]


def _softmax_of_one_block(x: torch.Tensor, block: int) -> Sequence[torch.Tensor]:
    part = x[..., :block]
    m = part.amax(-1, keepdim=True)
    return [torch.exp(x - m) / torch.exp(part - m).sum(-1, keepdim=True)]


# --- flash attention ---------------------------------------------------------------------------


class _Given(NamedTuple):
    """The oracle's arguments."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    sm_scale: float
    causal: bool

    def scores(self, shift: int = 0) -> torch.Tensor:
        """The scaled scores; a causal mask is moved by `shift`."""
        scores = self.q @ self.k.mT * self.sm_scale
        n_ctx, n_kv = scores.shape[-2:]
        if not self.causal:
            return scores
        visible = torch.ones(n_ctx, n_kv, dtype=torch.bool).tril(n_kv - n_ctx + shift)
        return scores.masked_fill(~visible, -math.inf)


def _flash(compute: Compute, **options: Any) -> Compute:
    """What a function of _Given computes, as one of the oracle's arguments."""

    def computed(  # which of the numbers it gets is decided by these names
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float, causal: bool
    ) -> Sequence[torch.Tensor]:
        return compute(_Given(q, k, v, sm_scale, causal), **options)

    return computed


def _flash_in_blocks(
    given: _Given,
    block: int,
    carried: Carried = "nothing_wrong",
    padded: float = -math.inf,
    factor: Callable[[float], float] = lambda sm_scale: 1.0,
) -> Sequence[torch.Tensor]:
    """Attention in blocks; the exponent that rescales the sums is multiplied by `factor`."""
    padded = -math.inf if given.causal else padded  # the mask covers what is past the end
    block = block or _power(given.k.shape[-2])
    of_sums = factor(given.sm_scale)
    m, total, acc = _online(given.scores(), given.v, block, carried, padded, of_sums)
    return [acc / total, (m + total.log())[..., 0]]


def _attention(
    given: _Given,
    shift: int = 0,
    scale: float = 1.0,
    lse: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
) -> Sequence[torch.Tensor]:
    """Attention with a causal mask moved by `shift`, scaled scores or another log-sum-exp."""
    scores = given._replace(sm_scale=given.sm_scale * scale).scores(shift)
    right = scores.logsumexp(-1)
    weights = torch.exp(scores - right.nan_to_num(neginf=0.0)[..., None])
    return [weights @ given.v, lse(scores.amax(-1), right) if lse else right]


def _unnormalised(given: _Given) -> Sequence[torch.Tensor]:
    scores = given.scores()
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    return [weights @ given.v, scores.logsumexp(-1)]


def _heads_exchanged(given: _Given) -> Sequence[torch.Tensor]:
    k, v = (t[:, :1].expand(t.shape) for t in (given.k, given.v))
    return _attention(given._replace(k=k, v=v))


_LN2, _LOG2E = math.log(2), math.log2(math.e)
_OfLse = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of the maximum and the right lse
_LSE: Mapping[str, _OfLse] = {
    "is the logarithm of the sum alone: the maximum isn't added": lambda m, lse: lse - m,
    "adds a maximum in powers of two to a natural logarithm": lambda m, lse: m * _LOG2E + (lse - m),
    "is in powers of two": lambda m, lse: lse * _LOG2E,
    "adds a logarithm to base 2 to a natural maximum": lambda m, lse: m + (lse - m) * _LOG2E,
    "multiplies the natural logarithm of the sum by ln 2": lambda m, lse: m + (lse - m) * _LN2,
    "is the maximum alone": lambda m, lse: m,
    "is the sum, without the logarithm": lambda m, lse: lse.exp(),
    "adds the sum itself to the maximum": lambda m, lse: m + (lse - m).exp(),
    "subtracts the maximum": lambda m, lse: lse - 2 * m,
}


def _no_visible_key(given: _Given, lse_too: bool) -> Sequence[torch.Tensor]:
    """Attention in which rows without a visible key are nan."""
    out, lse = _attention(given)
    hidden = (given.scores() == -math.inf).all(-1)
    if lse_too:
        lse = lse.masked_fill(hidden, math.nan)
    return [out.masked_fill(hidden[..., None], math.nan), lse]


def _no_key_flaws() -> Iterator[Flaw]:
    for own in (False, True):  # whether the log-sum-exp is nan there, too
        yield Flaw(
            "no_visible_key",
            "A row that sees no key becomes nan: its maximum is -inf and its sum is 0",
            "-inf - (-inf) and 0 / 0 are nan: take 0 in the place of such a maximum, and 1 in the "
            "place of such a sum.",
            _flash(_no_visible_key, lse_too=own),
        )


# Factors of a wrong exponent, by name: the sums are rescaled in other units than the scores have.
_FACTORS: Mapping[str, Callable[[float], float]] = {
    "sm_scale": lambda sm_scale: sm_scale,
    "sm_scale * log2(e)": lambda sm_scale: sm_scale * _LOG2E,
    "log2(e)": lambda sm_scale: _LOG2E,
    "ln 2": lambda sm_scale: _LN2,
}


def _flash_flaws() -> Iterator[Flaw]:
    yield Flaw(
        "not_divided",
        "`out` isn't divided by the sum of the exponentials",
        "Divide acc by the running sum after the loop.",
        _flash(_unnormalised),
    )
    advice = "`lse` is m + log(sum), both natural: what is in powers of two is multiplied by ln 2."
    for what, lse in _LSE.items():
        yield Flaw("lse", f"`lse` {what}", advice, _flash(_attention, lse=lse))
    yield Flaw(
        "mask_from_the_start",
        "The causal mask lets query i see the keys up to i: right only for as many keys as queries",
        "It has to be the keys up to i + N_KV - N_CTX.",
        _flash(lambda given: _attention(given, shift=given.q.shape[-2] - given.k.shape[-2])),
    )
    for shift, who in ((-1, "doesn't see its last key"), (1, "sees one key behind its last")):
        yield Flaw(
            "mask_off_by_one",
            f"The causal mask is off by one: a query {who}",
            "The last key of query i is number i + N_KV - N_CTX.",
            _flash(_attention, shift=shift),
        )
    yield Flaw(
        "keys_of_one_head",
        "Every head uses the keys and values of the first head",
        "Move k and v by their own head stride: a head has N_KV rows there.",
        _flash(_heads_exchanged),
    )
    for text, scale in (("log2(e)", _LOG2E), ("ln 2", _LN2)):
        yield Flaw(
            "base_of_the_exponential",
            f"The scores are {text} times what they should be: powers of 2 and of e are mixed",
            "With exp2 the scores need the factor log2(e); with exp they don't.",
            _flash(_attention, scale=scale),
        )
    for (text, factor), block in itertools.product(_FACTORS.items(), BLOCKS):
        yield Flaw(
            "rescaling_exponent",
            f"The exponent of the factor that rescales the sums is {text} times what it should be",
            "It is the old maximum minus the new one, to the base of the scores' exponentials.",
            _flash(_flash_in_blocks, block=block, factor=factor),
        )


# --- averages, sums and exponentials -----------------------------------------------------------

# Parts of a sum of k terms, by the size n of a block.
_OF_BLOCKS: Sequence[tuple[str, Callable[[int, int], slice]]] = (
    ("only the first {} products count", lambda n, k: slice(0, n)),
    # Its size stays open: sums of 33 products tell no block of 8 from one of 32.
    ("the last, partly filled block is missing", lambda n, k: slice(0, k // n * n)),
    ("only the last block of {} counts", lambda n, k: slice((k - 1) // n * n, None)),
    ("the first block is missing", lambda n, k: slice(n, None)),
)


def _rms(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    count: Callable[[int], float] = float,
    which: Callable[[int], slice] = slice,
) -> Sequence[torch.Tensor]:
    """RMSNorm whose sum of squares has the elements `which` of a row, and is divided by `count`."""
    n = x.shape[-1]
    mean = x[..., which(n)].square().sum(-1, keepdim=True) / count(n)
    return [x * torch.rsqrt(mean + eps) * weight]


def _rms_by_warps(
    x: torch.Tensor, weight: torch.Tensor, eps: float, warps: int, by_first: bool
) -> Sequence[torch.Tensor]:
    """RMSNorm whose threads take their own warp's sum for the row's, but for those `by_first`."""
    n = x.shape[-1]
    warp = torch.arange(n, device=x.device) // 32 % warps
    sums = torch.stack([x[..., warp == w].square().sum(-1) for w in range(warps)], -1)
    if by_first:  # the first warp has put them together
        sums[..., 0] = x.square().sum(-1)
    return [x * torch.rsqrt(sums[..., warp] / n + eps) * weight]


def _rms_by_blocks(
    x: torch.Tensor, weight: torch.Tensor, eps: float, block: int
) -> Sequence[torch.Tensor]:
    """RMSNorm in which each block of elements takes its own sum for the row's."""
    parts = torch.tensor_split(x, tuple(range(block, x.shape[-1], block)), -1)
    sums = [each.square().sum(-1, keepdim=True).expand_as(each) for each in parts]
    return [x * torch.rsqrt(torch.cat(sums, -1) / x.shape[-1] + eps) * weight]


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> Sequence[torch.Tensor]:
    centred = x - x.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return [centred * scale * weight]


def _centred_scale(x: torch.Tensor, weight: torch.Tensor, eps: float) -> Sequence[torch.Tensor]:
    variance = x.var(-1, keepdim=True, correction=0)
    return [x * torch.rsqrt(variance + eps) * weight]


def _rms_flaws() -> Iterator[Flaw]:
    centre = "RMSNorm doesn't centre: take the mean of the squares of x itself."
    yield Flaw("layer_norm", "The mean is subtracted, as in layer norm", centre, _layer_norm)
    yield Flaw(
        "variance", "`x` is divided by its standard deviation, as in layer norm", centre,
        _centred_scale,
    )  # fmt: skip
    advice = "The mean is the sum of the squares over cols, whatever the block's size."
    for text, count in (
        ("the block's size, the next power of two", _power),
        ("cols - 1", lambda n: n - 1 or math.nan),
        *((f"{block}", lambda n, block=block: block) for block in BLOCKS),
    ):
        what = f"The sum of squares is divided by {text}, not by cols"
        yield Flaw("count", what, advice, partial(_rms, count=count))
    yield Flaw(
        "no_sum",
        "The mean of the squares is 0, whatever the row holds",
        "Is each square added to the sum, in float32, and does the sum reach the root?",
        partial(_rms, which=lambda n: slice(n, None)),
    )
    for by_first, warps in itertools.product((False, True), (2, 4, 8, 16, 32)):
        yield Flaw(
            "sum_of_warp",
            f"Each warp {'but the first ' * by_first}takes its own elements' sum for the row's",
            "A shuffle sums one warp. Let one thread put the whole sum into shared memory, and all "
            "threads read it after __syncthreads().",
            partial(_rms_by_warps, warps=warps, by_first=by_first),
        )
    for block in BLOCKS:
        yield Flaw(
            "sum_of_block",
            f"Each {block} elements of a row are divided by their own sum alone",
            "No other block sees a block's shared memory: one has to sum a whole row, in a loop.",
            partial(_rms_by_blocks, block=block),
        )
    for block in (1, 4, 8, *BLOCKS):
        yield Flaw(
            "first_block",
            f"The mean takes in only the first {block} elements of a row",
            "The sum has to run over all of a row, and every thread needs the whole sum.",
            partial(_rms, which=partial(_OF_BLOCKS[0][1], block)),
        )
    for (text, which), block in itertools.product(_OF_BLOCKS[1:], BLOCKS):
        yield Flaw(
            "part_of_row",
            f"In the sum of squares {text.format(block)}",
            "Where does the loop over the columns begin and end, and is the sum kept?",
            partial(_rms, which=partial(which, block)),
        )


def _silu_overflow(x: torch.Tensor) -> Sequence[torch.Tensor]:
    e = torch.exp(x.float())
    return [x.float() * e / (1 + e)]


def _gelu_overflow(x: torch.Tensor) -> Sequence[torch.Tensor]:
    e = torch.exp(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3).float())
    return [x.float() / 2 * (1 + (e - 1) / (e + 1))]


def _products(
    a: torch.Tensor, b: torch.Tensor, block: int, moved: tuple[bool, bool]
) -> Sequence[torch.Tensor]:
    """The product by blocks of k, where a or b stays at its first block."""
    out = a.new_zeros(a.shape[0], b.shape[1])
    for first in range(0, a.shape[1], block):
        length = min(block, a.shape[1] - first)
        at_a, at_b = (first if moves else 0 for moves in moved)
        out += a[:, at_a : at_a + length] @ b[at_b : at_b + length]
    return [out]


def _slice_of_k(
    a: torch.Tensor, b: torch.Tensor, which: Callable[[int], slice]
) -> Sequence[torch.Tensor]:
    part = which(a.shape[1])
    return [a[:, part] @ b[part]]


def _gemm_flaws() -> Iterator[Flaw]:
    slices: list[tuple[str, Callable[[int], slice]]] = [
        ("the first product of each sum is missing", lambda k: slice(1, None)),
        ("the last product of each sum is missing", lambda k: slice(0, k - 1)),
    ]
    for block in (8, *BLOCKS):
        for name, moved in (("b", (True, False)), ("a", (False, True))):
            yield Flaw(
                "stands_still",
                f"The pointers of {name} stay at the first {block} of K",
                f"Add the block's size times {name}'s stride along K to them at the end of the "
                "loop.",
                partial(_products, block=block, moved=moved),
            )
        slices += [(what.format(block), partial(which, block)) for what, which in _OF_BLOCKS]
    for what, which in slices:
        yield Flaw(
            "sum_over_k",
            f"In the sum over K {what}",
            "Where does the loop over K begin and end, and is the accumulator kept?",
            partial(_slice_of_k, which=which),
        )


_OVERFLOW = (
    "`exp(x)` overflows for large x, and inf / inf is nan",
    "Write the formula with exp(-x): then 1 / (1 + exp(-x)) goes to 0 or 1.",
)

FLAWS: Mapping[str, Sequence[Flaw]] = {
    "softmax": (
        Flaw(
            "base_of_the_exponential",
            "The exponentials are powers of 2 where powers of e belong",
            "exp2 needs x * log2(e); exp takes x as it is.",
            lambda x: [torch.softmax(x.double() * math.log(2), -1)],
        ),
        Flaw(
            "scaled_first",
            "x * log2(e) is rounded before the maximum is subtracted, which shows where x is large",
            "Subtract the maximum first: exp2((x - maximum) * log2(e)).",
            _softmax_scaled_first,
        ),
        Flaw(
            "sum_in_the_maximum",
            "The sum's logarithm is added to the maximum, and is rounded away where x is large",
            "Divide by the sum: exp(x - maximum) / sum, in place of exp(x - (maximum + log(sum))).",
            lambda x: [torch.exp(x.float() - torch.logsumexp(x.float(), -1, keepdim=True))],
        ),
        *(
            Flaw(
                "own_maximum",
                "Partial sums are added that are relative to different maxima",
                "Multiply each by exp(its maximum - the row's maximum) before they are added.",
                partial(_softmax_of_parts, parts=parts),
            )
            for parts in BLOCKS
        ),
        *_online_flaws(partial(partial, _softmax_in_blocks)),
        *_padded_flaws(partial(partial, _softmax_in_blocks), "of a row"),
        Flaw(
            "unshifted",
            "The maximum isn't subtracted before the exponential, which then overflows",
            "Subtract the row's maximum from x first.",
            _softmax_unshifted,
        ),
        *(
            Flaw(
                "first_block",
                f"Maximum and sum take in only the first {block} elements of a row",
                "They have to run over the whole row.",
                partial(_softmax_of_one_block, block=block),
            )
            for block in BLOCKS
        ),
        *_online_flaws(partial(partial, _softmax_in_blocks), _SUMS_OF_BLOCKS),
    ),
    "flash_attention": (
        *_no_key_flaws(),  # first: each flaw of the sum makes these rows nan, too
        *_online_flaws(partial(_flash, _flash_in_blocks)),
        *_padded_flaws(partial(_flash, _flash_in_blocks), "of the keys"),
        *_flash_flaws(),
        *_online_flaws(partial(_flash, _flash_in_blocks), {**_SUMS_OF_BLOCKS, **_OF_ACCUMULATORS}),
    ),
    "rmsnorm": tuple(_rms_flaws()),
    "gemm": tuple(_gemm_flaws()),
    "silu": (Flaw("overflow", *_OVERFLOW, _silu_overflow),),
    "gelu": (
        Flaw("overflow", *_OVERFLOW, _gelu_overflow),
        Flaw(
            "exact",
            "This is the exact GELU, by erf, and not the approximation by tanh",
            "Compare with `gelu` in reference/oracles.py.",
            lambda x: [torch.nn.functional.gelu(x)],
        ),
    ),
}
