"""torch's own operators, as they are timed on a GPU."""

from __future__ import annotations

import pytest
import torch

from reference.oracles import flash_attention, flash_attention_torch

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


class OnGpu(torch.Tensor):
    """A tensor of the CPU that says it is on a GPU."""

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True


def test_attention_of_float32_asks_for_no_fused_kernel() -> None:
    q = torch.randn(1, 2, 32, 16).as_subclass(OnGpu)
    own = flash_attention_torch(q, q, q, 0.5, True)
    torch.testing.assert_close([*own], [*flash_attention(q, q, q, 0.5, True)])
    with pytest.raises(NotImplementedError, match="_scaled_dot_product_flash_attention"):
        flash_attention_torch(q.half(), q.half(), q.half(), 0.5, True)  # which the CPU lacks


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_on_a_gpu_torchs_attention_is_the_definitions(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 64, 32, device="cuda").to(dtype) for _ in range(3))
    own = flash_attention_torch(q, k, v, 0.2, True)
    for mine, right in zip(own, flash_attention(q, k, v, 0.2, True), strict=True):
        torch.testing.assert_close(mine.float(), right.float(), atol=2e-2, rtol=2e-2)
