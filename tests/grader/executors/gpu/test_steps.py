"""Fills, copies and uploads on a GPU leave what torch would have left."""

from __future__ import annotations

import base64
import struct
from unittest import mock

import pytest
import torch

from grader.executors.encoding import DeviceKernel, NotExecutable
from grader.plan.model import Copy, Upload, View
from grader.worker.protocol import Code
from tests.grader.executors.gpu.plans import Kernels, Tensors, fill, launch, output
from tests.support.fake_gpu import NEEDS_COMPILER, Executor, FakeGpu
from tests.support.native import fields, vector

pytestmark = NEEDS_COMPILER

VALUES = {
    "float64": (0, "nan", 1.5),
    "float32": (0.0, "-inf", 0.1),
    "float16": (-0.0, 65504, 0.1, "inf"),
    "bfloat16": (1.0, 0.1, "nan"),
    "float8_e4m3fn": (0, 1.5, "nan"),
    "float8_e5m2": (0, 0.1),
    "int64": (-1, 0, 1 << 40),
    "int32": (7, -2, 0x01010101),
    "int16": (300, -300),
    "int8": (-128, 127),
    "uint8": (255, -1),
    "bool": (True, 0.5, 0, "nan"),
}
CASES = [(dtype, value) for dtype, values in VALUES.items() for value in values]


def done(gpu: FakeGpu, tensors: Tensors, document: bytes) -> None:
    """Carry a plan out."""
    with Executor(gpu, tensors) as executor:
        reply = executor.execute(document)
        assert reply is not None and reply.code is Code.ok, reply


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in which NaNs are equal, too."""
    is_float = tensor.is_floating_point()
    return torch.nan_to_num(tensor.double(), 1e9, 2e9, -2e9) if is_float else tensor


@pytest.mark.parametrize(("dtype", "value"), CASES, ids=map(str, CASES))
def test_a_fill_leaves_what_torch_does(gpu: FakeGpu, dtype: str, value) -> None:
    number = float(value) if isinstance(value, str) else value
    wanted = torch.empty(6, dtype=getattr(torch, dtype)).fill_(number)
    stored = "uint8" if dtype.startswith("float8") else dtype  # which no argument has
    with Tensors(output("out", 6, dtype=stored)) as tensors:
        to = tensors.view(0, dtype=dtype)
        if wanted.element_size() == 8 and value not in (0, -1):  # no driver fills with 8 bytes
            with pytest.raises(NotExecutable, match="a copy of a strided view"):
                tensors.document(None, fill(to, value))
            return
        done(gpu, tensors, tensors.document(None, fill(to, value)))
        assert torch.equal(bits(tensors.values("out").view(wanted.dtype)), bits(wanted))


@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", 1e300), ("int32", "inf"), ("int32", "nan"), ("int8", 300)]
)
def test_what_torch_fills_nothing_with_isn_t_run(dtype: str, value) -> None:
    with Tensors(output("out", 6, dtype=dtype)) as tensors:
        to = tensors.view(0)
        try:
            torch.empty(1, dtype=getattr(torch, dtype)).fill_(float(value))
            pytest.skip("this torch does")
        except RuntimeError:
            pass
        with pytest.raises(NotExecutable, match=f"a fill of {dtype}"):
            tensors.document(None, fill(to, value))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_fill_of_rows_leaves_what_is_between_them(gpu: FakeGpu, dtype: str) -> None:
    with Tensors(output("out", 5, 4, strides=(7, 1), dtype=dtype)) as tensors:
        done(gpu, tensors, tensors.document(None, fill(tensors.view(0), 3)))
        assert (tensors.values("out") == 3).all()  # which has looked at the gaps


def test_rows_are_copied_between_pitches(gpu: FakeGpu) -> None:
    given = torch.arange(40.0).reshape(5, 8)
    with Tensors(vector("in", given), output("out", 5, 6, strides=(9, 1))) as tensors:
        source = tensors.view(0, shape=(5, 6), offset=tensors.view(0).offset + 2)
        done(gpu, tensors, tensors.document(None, Copy("copy", tensors.view(1), source, 0)))
        assert torch.equal(tensors.values("out"), given[:, 2:])


def test_one_row_is_copied_through_memory_of_the_plans_own(gpu: FakeGpu) -> None:
    given = torch.arange(8.0)
    with Tensors(vector("in", given), output("out", 8)) as tensors:
        between = View(tensors.own(32), "float32", (8,), (1,))
        copies = [
            Copy("copy", between, tensors.view(0)),
            Copy("copy", tensors.view(1), between, 3),
        ]
        done(gpu, tensors, tensors.document(None, *copies))
        assert torch.equal(tensors.values("out"), given)


def test_a_copy_of_a_strided_view_is_a_launch_of_our_kernel(gpu: FakeGpu) -> None:
    """That kernel's own semantics: test_views.py. Here a stand-in says what it was given."""
    source = """
    #include <cstring>
    extern "C" {
    extern const unsigned copy_view_parameters[] =
        {0, 8, 8, 8, 16, 8, 24, 8, 32, 8, 40, 8, 48, 8, 56, 8, 64, 8, 0, 0};
    void copy_view(void** parameters, const unsigned* grid, const unsigned* block) {
        long* out = *static_cast<long**>(parameters[0]);
        for (int i = 0; i < 7; ++i) out[i] = *static_cast<long*>(parameters[2 + i]);
        out[7] = grid[0] * 1000 + block[0];
        out[8] = **static_cast<long**>(parameters[1]);
    }
    }
    """
    made = DeviceKernel(gpu.cubin(source), "copy_view", 4)
    given = torch.arange(50).reshape(5, 10)
    with Tensors(vector("in", given), output("out", 10, 5, dtype="int64")) as tensors:
        first = tensors.view(0).offset + 3
        source_view = tensors.view(0, shape=(5, 3), strides=(10, 2), offset=first)
        to = tensors.view(1, shape=(5, 3), strides=(3, 1))
        compiled = mock.Mock(return_value=made)
        copied = Copy("copy", to, source_view)
        document = tensors.document(None, copied, compile_view=compiled)
        done(gpu, tensors, document)
        said = tensors.arena.collect(tensors.placed)[-1].values.flatten()[:9].tolist()
        # 15 elements, of both dimensions: size, strides of either end
        assert said == [15, 5, 3, 10, 3, 1, 2, 1128, 3]
    compiled.assert_called_once()
    assert "%size1" in compiled.call_args.args[0]


def test_uploads_hold_addresses_of_buffers(gpu: FakeGpu, kernels: Kernels) -> None:
    given = torch.arange(6.0)
    with Tensors(vector("in", given), output("out", 6)) as tensors:
        structure = tensors.own(24)
        data = struct.pack("<QqQ", 1, 6, 2)
        pointers = tuple((at, *tensors.at(number).pointer) for at, number in ((0, 0), (16, 1)))
        to = View(structure, "uint8", (24,), (1,))
        upload = Upload("upload", to, base64.b64encode(data).decode(), pointers)
        done(
            gpu, tensors, tensors.document(kernels, upload, launch("follow", tensors.at(structure)))
        )
        assert torch.equal(tensors.values("out"), given)


def test_variables_of_a_module_are_written_and_read(gpu: FakeGpu, kernels: Kernels) -> None:
    with Tensors(output("out", 4)) as tensors:
        factors = View(tensors.symbol("factors", 12), "float32", (3,), (1,))
        whole = tensors.view(0)
        document = tensors.document(
            kernels,
            fill(whole, 0),
            launch("globals", tensors.at(0)),  # 101 + 1 + 2 + 3
            fill(replace_shape(factors, 1), 10),
            launch("globals", tensors.at(0, 4)),
            Copy(
                "copy", replace_shape(whole, 2, offset=whole.offset + 2), replace_shape(factors, 2)
            ),
        )
        done(gpu, tensors, document)
        assert tensors.values("out").tolist() == [107, 117, 10, 2]


def test_a_variable_that_is_too_small_or_missing_is_refused(gpu: FakeGpu, kernels) -> None:
    for name, size, code in (("factors", 16, Code.bad_request), ("absent", 4, Code.raised)):
        with Tensors(output("out", 4)) as tensors:
            tensors.symbol(name, size)
            with Executor(gpu, tensors) as executor:
                document = tensors.document(
                    kernels, launch("nothing", tensors.at(0), tensors.at(0))
                )
                reply = executor.execute(document)
                assert reply is not None and reply.code is code
                assert "symbol" in fields(reply)["message"] or code is Code.bad_request


def replace_shape(view: View, size: int, offset: int | None = None) -> View:
    """The first elements of a view, or those from one on."""
    return View(view.buffer, view.dtype, (size,), (1,), view.offset if offset is None else offset)
