"""Whose kernel ran: the libraries' are told by their names, a submission's own never refused.

The names are of the shape in which CUDA's profiler lists them for torch's operators.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.kernel_names import Owner, of_libraries, own_kernels, owner

ROOT = Path(__file__).resolve().parents[2]

NAMES = {
    Owner.cublas: [
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
        "nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_NNT",
        "nvjet_sm103_tst_mma_128x256x64_4_24x16x64_1x2_h_bz_TNN",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
        "segment_k_off_kernel__5x_cublas",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_"
        "alignc4_execute_kernel__51_cublas",
        "ampere_sgemm_128x64_nn",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_relu_f2f_stages_32x5_tn",
        "volta_h884gemm_64x128_ldg8_nn",
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn",
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, "
        "16, 4, 4, false, false, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<",
        "void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024, cublasGemvParamsEx<",
        "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true, cublasGemvTensorStridedBatched<",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, false>(",
        "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, true, false>(",
        "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, ",
        "gemmk1_kernel<int, float, 256, 5, false, false, false, false, cublasGemvTensor",
    ],
    Owner.cudnn: [
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_"
        "cga1x1x1_kernel0_0",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1, true>(",
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4",
        "cudnn_infer_ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true, false, true>(",
    ],
    Owner.cutlass: [
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>",
        "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int",
        "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_0_tnn_align8",
    ],
    Owner.attention: [
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64,",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<",
    ],
    Owner.inductor: [
        "triton_poi_fused_mul_sigmoid_0",
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0",
        "triton_per_fused__softmax_3",
        "triton_tem_fused_mm_0",
    ],
    Owner.aten: [
        "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::"
        "silu_kernel(at::TensorIteratorBase&)::{lambda()#1}::operator()() const",
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
        "at::native::CUDAFunctor_add<float> >(at::TensorIteratorBase&, ",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, ",
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(",
        "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::linspace_cuda",
        "void at_cuda_detail::cub::DeviceScanKernel<at_cuda_detail::cub::AgentScanPolicy<",
    ],
    Owner.aten_fill: [
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
        "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
        "void (anonymous namespace)::elementwise_kernel_with_index<int, "
        "at::native::arange_cuda_out(c10::Scalar const&, c10::Scalar const&",
    ],
    Owner.aten_copy: [
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
        "at::TensorIteratorBase&)::{lambda()#3}::operator()() const",
        "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(",
    ],
    Owner.cub: [
        "void cub::CUB_200700_900_NS::DeviceReduceSingleTileKernel<cub::CUB_200700_900_NS::",
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::",
    ],
    Owner.other_library: [
        "void vector_fft<512u, 16u, 8u, (padding_t)1, (twiddle_t)0>",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void cusparse::csrmm_alg2_kernel<256, float>",
    ],
    Owner.memcpy: ["Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pinned -> Device)"],
    Owner.memset: ["Memset (Device)"],
    Owner.unknown: [
        "silu_kernel",
        "matmul_kernel_persistent",
        "gemm_v3_kernel",
        "flash_attention_kernel",
        "softmax_online_kernel",
        "_fwd_kernel",
        "copy_kernel",
        "void transpose_tiled<32>(float const*, float*, int, int)",
        "triton_softmax_kernel",
        "ampere_style_kernel",
        "gemv_kernel",
    ],
}
EACH = [
    pytest.param(who, name, id=f"{who.name}-{name[:40]}") for who in NAMES for name in NAMES[who]
]


@pytest.mark.parametrize(("who", "name"), EACH)
def test_a_kernel_is_told_by_its_name(who: Owner, name: str) -> None:
    assert owner(name) is who
    # Names come cut: what tells them apart stands in their first part.
    assert owner(name[:300]) is who


@pytest.mark.parametrize("name", ["cutlass_like", "ampere_sgemm_of_my_own", "triton_per_row_0"])
def test_what_the_file_defines_is_its_own_whatever_it_is_called(name: str) -> None:
    assert owner(name).is_library or name == "cutlass_like"
    assert owner(name, {name}) is Owner.own
    assert owner(f"{name}_0d1d2de", {name}) is Owner.own  # as Triton 2 wrote it
    assert of_libraries([name], {name}) == []


def test_a_name_of_ones_own_hides_no_kernel_of_a_namespace() -> None:
    names = [NAMES[Owner.aten][0], NAMES[Owner.cutlass][0]]
    own = {"vectorized_elementwise_kernel", "Kernel2", "silu_kernel", "void", "at"}
    assert [name for name, _ in of_libraries(names, own)] == names


def test_copies_fills_and_names_nobody_knows_are_held_against_nobody() -> None:
    innocent = (Owner.memcpy, Owner.memset, Owner.aten_copy, Owner.aten_fill, Owner.unknown)
    assert of_libraries(name for who in innocent for name in NAMES[who]) == []


def test_each_library_kernel_is_told_once_in_order() -> None:
    one, other = NAMES[Owner.cublas][0], NAMES[Owner.aten][0]
    found = of_libraries(["silu_kernel", other, one, other], {"silu_kernel"})
    assert found == [(other, Owner.aten), (one, Owner.cublas)]


def test_the_kernels_of_a_file_are_found_however_they_are_made() -> None:
    source = """
import triton, triton.language as tl
from triton import jit as kernel

@triton.jit
def one(x_ptr): ...

@triton.autotune(configs=[], key=["n"])
@triton.jit(do_not_specialize=["n"])
def two(x_ptr): ...

@kernel
def three(x_ptr): ...

def plain(x_ptr): ...

four = triton.jit(plain)

def entry(x, out): one[(1,)](x)
"""
    assert own_kernels(source) == {"one", "two", "three", "plain"}
    assert own_kernels("def broken(:") == frozenset()


@pytest.mark.parametrize("path", sorted((ROOT / "reference").glob("*.py")), ids=lambda p: p.stem)
def test_no_kernel_of_the_solutions_looks_like_a_librarys(path: Path) -> None:
    for name in own_kernels(path.read_text(encoding="utf-8")):
        assert owner(name) is Owner.unknown
