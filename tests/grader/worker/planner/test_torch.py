"""What launchers do with torch: all of it works unchanged, and is noted."""

from __future__ import annotations

import base64
import struct

import pytest

from .planning import steps, tensor
from .test_launches import HEAD, PAIR


def test_a_copy_between_views_of_the_arguments(planning, tmp_path):
    plan = planning.plan(tmp_path, "def f(x, y):\n    y[10:20] = x[::2][:10]\n", PAIR)

    (copy,) = steps(plan, "copy")
    assert copy["to"] == {
        "buffer": 1, "dtype": "float32", "shape": [10], "strides": [1], "offset": 1034,
    }  # fmt: skip
    assert copy["from"]["strides"] == [2]
    assert copy["line"] == 2


@pytest.mark.parametrize(
    "line",
    [
        "y.copy_(x)",
        "y[:] = x",
        "y[...] = x",
        "torch.Tensor.copy_(y, x)",
        "y.view(10, 10).copy_(x.view(10, 10))",
        "y.data.copy_(x.detach())",
        "y.set_(y); y.copy_(x)",
    ],
)
def test_ways_to_copy(planning, tmp_path, line):
    plan = planning.plan(tmp_path, f"import torch\ndef f(x, y):\n    {line}\n", PAIR)

    assert [each["do"] for each in plan["calls"][0]] == ["copy"]


def test_a_cast_is_a_copy_to_a_new_buffer_that_is_freed(planning, tmp_path):
    text = "def f(x, y):\n    h = x.half()\n    del h\n    z = x.t().contiguous()\n"
    plan = planning.plan(tmp_path, text, [tensor(16, 8), tensor(16, 8)])

    assert [each["do"] for each in plan["calls"][0]] == [
        "alloc", "copy", "free", "alloc", "copy", "free",
    ]  # fmt: skip
    assert steps(plan, "copy")[0]["to"]["dtype"] == "float16"
    assert plan["buffers"][2] == {
        "bytes": 256, "argument": None, "kind": "device", "name": "", "line": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("torch.zeros_like(x)", 0),
        ("torch.ones(4, device='cuda')", 1),
        ("torch.full((4,), 2.5, device=x.device)", 2.5),
        ("x.new_full((3,), float('-inf'))", "-inf"),
        ("torch.empty_like(x).fill_(7)", 7),
        ("x.new_zeros(5, dtype=torch.int32)", 0),
        ("torch.zeros(4).cuda() if False else torch.zeros(4, device='cuda:0')", 0),
    ],
)
def test_fills(planning, tmp_path, expression, value):
    plan = planning.plan(tmp_path, f"import torch\ndef f(x, y):\n    z = {expression}\n", PAIR)

    (fill,) = steps(plan, "fill")
    assert fill["value"] == value


@pytest.mark.parametrize(
    ("expression", "data"),
    [
        ("torch.tensor([1, 2, 3], device='cuda', dtype=torch.int32)", struct.pack("<3i", 1, 2, 3)),
        ("torch.arange(3, dtype=torch.int32).cuda()", struct.pack("<3i", 0, 1, 2)),
        ("torch.arange(3, dtype=torch.int32, device='cuda')", struct.pack("<3i", 0, 1, 2)),
        ("torch.tensor(2.5).to('cuda')", struct.pack("<f", 2.5)),
        ("torch.from_numpy(numpy.float32([1, 2])).to(x)", struct.pack("<2f", 1, 2)),
        ("torch.eye(2, device='cuda')", struct.pack("<4f", 1, 0, 0, 1)),
        ("torch.tensor([0.5]).pin_memory().to('cuda', non_blocking=True)", b"\0\0\0?"),
    ],
)
def test_values_of_the_launcher_are_uploaded(planning, tmp_path, expression, data):
    text = f"import torch, numpy\ndef f(x, y):\n    z = {expression}\n"
    plan = planning.plan(tmp_path, text, PAIR)

    (upload,) = steps(plan, "upload")
    assert base64.b64decode(upload["data"]) == data


def test_addresses_in_uploaded_bytes_are_relocated(planning, tmp_path):
    text = (
        "import torch\n"
        "def f(x, y):\n"
        "    z = torch.tensor([x.data_ptr(), 5, y[2:].data_ptr()], device='cuda')\n"
    )
    plan = planning.plan(tmp_path, text, PAIR)

    assert steps(plan, "upload")[0]["pointers"] == [[0, 0, 4096], [16, 1, 4104]]


@pytest.mark.parametrize(
    "made",
    [
        "torch.tensor([x.data_ptr()] * 2, device='cuda')",
        "torch.full((2,), x.data_ptr(), device='cuda')",
        "torch.empty(2, dtype=torch.int64, device='cuda').fill_(x.data_ptr())",
    ],
)
def test_one_address_in_several_elements_is_relocated_in_each(planning, tmp_path, made):
    plan = planning.plan(tmp_path, f"import torch\ndef f(x, y):\n    z = {made}\n", PAIR)

    assert steps(plan, "upload")[0]["pointers"] == [[0, 0, 4096], [8, 0, 4096]]
    assert not steps(plan, "fill")


@pytest.mark.parametrize(
    ("line", "operation"),
    [
        ("y.copy_(x * torch.sigmoid(x))", "aten::sigmoid"),
        ("torch.add(x, x, out=y)", "aten::add"),
        ("y.mul_(2)", "aten::mul_"),
        ("torch.nn.functional.silu(x)", "aten::silu"),
        ("torch.compile(lambda t: t.exp())(x)", "aten::exp"),
        ("torch.randn(4, device='cuda')", "aten::randn"),
        ("x.sum()", "aten::sum"),
        ("torch.mm(x.view(10, 10), y.view(10, 10))", "aten::mm"),
    ],
)
def test_operations_that_compute_are_foreign(planning, tmp_path, line, operation):
    plan = planning.plan(tmp_path, f"import torch\ndef f(x, y):\n    {line}\n", PAIR)

    foreign = steps(plan, "foreign")
    assert operation in [each["operation"] for each in foreign]
    assert foreign[0]["line"] == 3


def test_a_number_in_a_tensor_of_the_host_is_no_input(planning, tmp_path):
    text = "import torch\ndef f(x, y):\n    torch.mul(x, torch.tensor(2.0), out=y)\n"
    (foreign,) = steps(planning.plan(tmp_path, text, PAIR), "foreign")

    assert [each["buffer"] for each in foreign["inputs"]] == [0]  # `out` is only written


@pytest.mark.parametrize(
    "moved",
    [
        *("x.cuda()", "x.cuda(0)", "x.to('cuda')", "x.to(torch.device('cuda'))", "x.to(0)"),
        *(
            "x.to('cuda', torch.float32)",
            "x.to(device='cuda')",
            "torch.as_tensor(x, device='cuda')",
        ),
        "x.to(torch.cuda.current_device(), non_blocking=True)",
    ],
)
def test_a_tensor_of_the_device_stays_there_by_whatever_name(planning, tmp_path, moved):
    text = f"import torch\ndef f(x, y):\n    z = {moved}\n    assert z is x\n    y.copy_(z)\n"
    plan = planning.plan(tmp_path, text, PAIR)
    assert [step["do"] for step in plan["calls"][0]] == ["copy"]


@pytest.mark.parametrize(
    "made",
    [
        *("torch.empty(4, device=0)", "torch.empty(4, device=torch.cuda.current_device())"),
        *("torch.empty(4).cuda()", "torch.zeros(4).to(0)", "torch.ones(4).to('cuda')"),
        "torch.nn.Linear(2, 2).cuda().weight",
        "torch.empty(4, device=torch.accelerator.current_device_index())",
        "torch.empty(4, device=torch.accelerator.current_accelerator())",
    ],
)
def test_memory_of_the_device_is_made_by_whatever_name(planning, tmp_path, made):
    text = f"import torch\ndef f(x, y):\n    assert {made}.device == x.device\n"
    assert "calls" in planning.plan(tmp_path, text, PAIR)


@pytest.mark.parametrize(
    "expression",
    [
        "torch.empty(4, device='cuda:1')",
        "x.new_zeros(4, device=torch.device('cuda', 1))",
        "torch.zeros(4, device=1)",
        "x.to('cuda:1')",
        "x.cuda(1)",
    ],
)
def test_a_second_gpu_is_not_there(planning, tmp_path, expression):
    text = f"import torch\ndef f(x, y):\n    z = {expression}\n"
    refused = planning.plan(tmp_path, text, PAIR)

    assert (refused["code"], refused["type"], refused["line"]) == ("raised", "RuntimeError", 3)
    assert "invalid device ordinal" in refused["message"]


def test_what_only_a_gpu_has_is_named_and_no_fault_of_the_launcher(planning, tmp_path):
    for asked in ("torch.Generator(device='cuda')", "torch._C._cuda_getCurrentBlasHandle()"):
        refused = planning.plan(tmp_path, f"import torch\ndef f(x, y):\n    {asked}\n", PAIR)
        assert refused["code"] == "not_modelled", refused
        assert refused["line"] == 3
    words = "raise RuntimeError('a: No CUDA GPUs are available')"  # the launcher's own
    refused = planning.plan(tmp_path, f"def f(x, y):\n    {words}\n", PAIR)
    assert refused["code"] == "raised"


def test_the_state_of_random_numbers_is_that_of_a_fresh_generator(planning, tmp_path):
    text = """import torch
def f(x, y):
    seed, offset = torch.cuda.get_rng_state().view(torch.int64).tolist()
    assert (seed, offset) == (0, 0)
    torch.cuda.set_rng_state(torch.cuda.get_rng_state())
"""
    assert "calls" in planning.plan(tmp_path, text, PAIR)


def test_a_file_may_test_its_gradients_as_it_is_imported(planning, tmp_path):
    text = """import torch
w, b = (torch.randn(4, device="cuda", requires_grad=True) for _ in range(2))
(w * w + b).sum().backward()
assert w.grad.shape == b.grad.shape == w.shape
(d,) = torch.autograd.grad((w * w).sum(), w)
assert torch.allclose(d, w.grad)
def f(x, y):
    y.copy_(x)
"""
    assert planning.plan(tmp_path, text, PAIR)["calls"]


def test_dynamo_can_be_imported(planning, tmp_path):
    text = (
        "import torch._dynamo\nfrom torch._dynamo.utils import counters\n"
        "torch._dynamo.reset()\ntorch._dynamo.config.cache_size_limit = 8\ndef f(x, y): pass\n"
    )
    assert planning.plan(tmp_path, text, PAIR)["calls"] == [[], []]


@pytest.mark.parametrize(
    ("imports", "is_there"),
    [
        ("import sympy", "sympy.Integer(2) + 2 == 4"),
        ("from sympy.core import Symbol", "Symbol('n').is_Symbol"),
        (
            "from torch.fx.experimental.symbolic_shapes import ShapeEnv, guard_or_false",
            "ShapeEnv() is not None and guard_or_false(True)",
        ),
        ("from torch.utils._sympy.functions import FloorDiv", "int(FloorDiv(7, 2)) == 3"),
        (
            "from torch.distributed.tensor import DTensor",
            "issubclass(DTensor, torch.Tensor) and not isinstance(x, DTensor)",
        ),
    ],
)
def test_what_is_postponed_can_be_imported(planning, tmp_path, imports, is_there):
    text = f"import torch\n{imports}\ndef f(x, y):\n    assert {is_there}\n    y.copy_(x)\n"
    assert "calls" in planning.plan(tmp_path, text, PAIR)


def test_the_usual_operations_import_nothing_that_is_postponed(planning, tmp_path):
    text = """import sys, types, torch, triton
def f(x, y):
    z = torch.zeros_like(x.view(10, 10)).t().contiguous()
    z.reshape(-1)[2:].copy_(x[:98].to(torch.float16))
    assert x.expand(3, 100).stride() == (0, 1) and z.unsqueeze(0).is_contiguous()
    # What torch 2.11 asks in a view and a broadcast.
    from torch.fx.experimental.symbolic_shapes import has_hint, size_hint
    assert has_hint(3) and size_hint(3) == 3
    for name in ("sympy", "torch._dynamo", "torch.fx.experimental.symbolic_shapes",
                 "torch.distributed.tensor", "torch.utils._sympy.functions"):
        assert type(sys.modules[name]) is not types.ModuleType, name
"""
    assert "calls" in planning.plan(tmp_path, text, PAIR)


def test_a_foreign_operation_names_what_it_reads_and_writes(planning, tmp_path):
    plan = planning.plan(tmp_path, "def f(x, y):\n    y.addcmul_(x[:1], x)\n", PAIR)

    (foreign,) = steps(plan, "foreign")
    assert [each["buffer"] for each in foreign["inputs"]] == [1, 0, 0]
    assert [each["buffer"] for each in foreign["outputs"]] == [1]


@pytest.mark.parametrize(
    "line",
    [
        "x.max().item()",
        "float(x[0])",
        "if x.sum() > 0: pass",
        "x.cpu()",
        "x.to('cpu')",
        "x.tolist()",
        "x.cpu().numpy()",
        "x.nonzero()",
        "x[x > 0]",
        "torch.equal(x, y)",
        "torch.allclose(x, y)",
        "torch.zeros(100).copy_(x)",
        "numpy.asarray(x)",
        "range(x.to(torch.int32)[0])",
    ],
)
def test_an_operation_that_needs_data_is_named_at_its_line(planning, tmp_path, line):
    refused = planning.plan(tmp_path, f"import torch, numpy\ndef f(x, y):\n    {line}\n", PAIR)

    assert refused.get("type") == "NeedsData", refused
    assert refused["code"] == "raised"
    assert refused["line"] == 3
    assert "Compute it in a kernel" in refused["message"]


def test_questions_about_tensors_and_the_gpu(planning, tmp_path):
    text = """
import torch, triton
def f(x, y):
    assert x.is_cuda and not x.is_cpu and x.device == torch.device("cuda:0")
    assert x.device.type == "cuda" and x.get_device() == 0 and x.is_contiguous()
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability(x.device) == (9, 0)
    assert "H100" in torch.cuda.get_device_name()
    props = torch.cuda.get_device_properties(x.device)
    assert props.multi_processor_count == 132
    with torch.cuda.device(x.device), torch.no_grad(), torch.inference_mode():
        torch.cuda.synchronize()
    torch.cuda.current_stream().synchronize()
    assert triton.runtime.driver.active.get_current_target().arch == 90
    assert triton.testing.nvsmi(["clocks.max.sm", "clocks.current.memory"]) == [1980, 2619]
    assert 3300 < triton.testing.get_dram_gbps(0) < 3400
    assert 500 < triton.testing.get_max_tensorcore_tflops(torch.bfloat16, 1980e3, 0) < 600
    assert triton.runtime.driver.active.get_active_torch_device().type == "cuda"
    assert x.data_ptr() % 16 == 0 and x.stride() == (1,) and x.storage_offset() == 1024
    assert torch.is_tensor(x) and isinstance(x, torch.Tensor)
    assert x.dtype is torch.float32 and x.element_size() == 4
    print(x.shape, x)
    print(f"{(x - y).abs().max():.3e}")
"""
    plan = planning.plan(tmp_path, text, PAIR)

    waits = [each.get("stream") for each in steps(plan, "synchronise")]
    assert waits == [None, 0]
    assert not steps(plan, "launch")
    assert "torch.Size([100]) tensor(<no values in a plan>, shape=(100,)" in plan["printed"]
    assert plan["printed"].splitlines()[1].startswith("tensor(<no values in a plan>, shape=()")


def test_bytes_are_printed_too(planning, tmp_path):
    text = (
        "import sys\n"
        + HEAD
        + (
            "def f(x, y):\n"
            "    print('text')\n"
            "    sys.stdout.buffer.write(b'bytes \\xc3\\xa9 \\xff')\n"
            "    sys.stdout.flush()\n"
        )
    )
    assert planning.plan(tmp_path, text, PAIR)["printed"] == "text\nbytes \u00e9 \ufffd"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torch._foreach_zero_([y, x])", ["fill", "fill"]),
        ("torch._foreach_copy_([y], [x])", ["copy"]),
        ("torch._foreach_copy_([y, x], [torch.arange(100.0), torch.ones(100)])",
         ["upload", "fill"]),
        ("torch._foreach_add_([y], 1)", ["foreign"]),
        ("one = torch.ones(1, device='cuda')\n    "
         "torch._amp_foreach_non_finite_check_and_unscale_([y], one, one)", ["fill", "foreign"]),
    ],
)  # fmt: skip
def test_an_operation_that_returns_nothing_is_noted_by_what_it_writes(
    planning, tmp_path, line, expected
):
    plan = planning.plan(tmp_path, f"{HEAD}def f(x, y):\n    {line}\n", PAIR)
    noted = [each for each in plan["calls"][0] if each["do"] not in ("alloc", "free")]
    assert [each["do"] for each in noted] == expected
    if noted[-1]["do"] == "foreign":
        assert 1 in {each["buffer"] for each in noted[-1]["outputs"]}


def test_streams_and_events(planning, tmp_path):
    text = HEAD + (
        "def f(x, y):\n"
        "    side = torch.cuda.Stream()\n"
        "    side.wait_stream(torch.cuda.current_stream())\n"
        "    with torch.cuda.stream(side):\n"
        "        copy[(1,)](x, y, 100, BLOCK=128)\n"
        "    done = side.record_event()\n"
        "    torch.cuda.current_stream().wait_event(done)\n"
        "    copy[(1,)](y, x, 100, BLOCK=128)\n"
        "    x.record_stream(side)\n"
    )
    plan = planning.plan(tmp_path, text, PAIR)

    noted = [
        (each["do"], each.get("event"), each.get("stream"))
        for each in plan["calls"][0]
        if each["do"] != "alloc"
    ]
    assert noted == [
        ("record", 0, 0), ("wait", 0, 1), ("launch", None, 1), ("record", 1, 1), ("wait", 1, 0),
        ("launch", None, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrapper",
    [
        """
class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        copy[(1,)](x, y, 100, BLOCK=128)
        ctx.save_for_backward(x)
        return y
    @staticmethod
    def backward(ctx, grad):
        return grad, None
def f(x, y):
    Function.apply(x, y)
""",
        """
class Module(torch.nn.Module):
    def forward(self, x, y):
        copy[(1,)](x, y, 100, BLOCK=128)
        return y
module = Module().cuda().eval()
def f(x, y):
    module(x, y)
""",
        """
@torch.library.custom_op("tests::copied", mutates_args=("y",))
def copied(x: torch.Tensor, y: torch.Tensor) -> None:
    copy[(1,)](x, y, 100, BLOCK=128)
def f(x, y):
    torch.ops.tests.copied(x, y)
""",
        """
library = torch.library.Library("tests", "DEF")
library.define("other(Tensor x, Tensor(a!) y) -> ()")
@torch.library.impl(library, "other", "CUDA")
def other(x, y):
    copy[(1,)](x, y, 100, BLOCK=128)
def f(x, y):
    torch.ops.tests.other(x, y)
""",
        """
import functools
@functools.cache
def scratch(n):
    return torch.empty(n, device="cuda")
@torch.compile
def g(x, y):
    copy[(1,)](x, y, 100, BLOCK=128)
def f(x, y):
    scratch(10)
    g(x, y)
""",
        """
# As the programs that torch.compile writes.
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
def f(x, y):
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf0 = empty_strided_cuda((20, 5), (5, 1), torch.float16)
        assert (buf0.device, buf0.stride(), buf0.dtype) == (x.device, (5, 1), torch.float16)
        get_raw_stream(0)
        copy[(1,)](x, y, 100, BLOCK=128)
""",
    ],
)
def test_wrappers(planning, tmp_path, wrapper):
    plan = planning.plan(tmp_path, HEAD + wrapper, PAIR)

    assert len(steps(plan, "launch")) == 1
    assert len(steps(plan, "launch", call=1)) == 1
    assert not steps(plan, "foreign")


def test_what_is_cached_is_allocated_in_the_first_call_only(planning, tmp_path):
    text = HEAD + (
        "cache = {}\n"
        "at_import = torch.zeros(8, device='cuda')\n"
        "def f(x, y):\n"
        "    if 'w' not in cache:\n"
        "        cache['w'] = torch.zeros(100, device='cuda')\n"
        "    copy[(1,)](at_import, y, 8, BLOCK=128)\n"
        "    copy[(1,)](cache['w'], y, 100, BLOCK=128)\n"
    )
    plan = planning.plan(tmp_path, text, PAIR)

    assert [each["do"] for each in plan["calls"][0]] == [
        "alloc", "fill", "alloc", "fill", "launch", "launch",
    ]  # fmt: skip
    assert [each["do"] for each in plan["calls"][1]] == ["launch", "launch"]
    assert [each["kind"] for each in plan["buffers"]] == ["argument"] * 2 + ["device"] * 2


def test_joined_tensors_are_copies(planning, tmp_path):
    plan = planning.plan(tmp_path, "import torch\ndef f(x, y):\n    torch.cat([x, y])\n", PAIR)

    assert [each["to"]["offset"] for each in steps(plan, "copy")] == [0, 100]


@pytest.mark.parametrize(
    ("shape", "pads", "copied", "target", "source"),
    [
        ("(100,)", (2, 3), [100], 2, 0),
        ("(100,)", (-4, 1), [96], 0, 4),
        ("(4, 25)", (1, 2, 3, 0), [4, 25], 3 * 28 + 1, 0),
    ],
    ids=["wider", "cut off on one side", "rows and columns"],
)
def test_a_padded_tensor_is_a_fill_and_a_copy(
    planning, tmp_path, shape, pads, copied, target, source
):
    text = f"""
import torch
def f(x, y):
    torch.nn.functional.pad(x.view{shape}, {pads}, value=0.5)
"""
    plan = planning.plan(tmp_path, text, PAIR)

    assert [each["do"] for each in plan["calls"][0]] == ["alloc", "fill", "copy", "free"]
    (fill,), (copy,) = steps(plan, "fill"), steps(plan, "copy")
    assert (fill["value"], fill["to"]["offset"]) == (0.5, 0)
    assert copy["to"]["offset"] == target
    assert copy["from"]["offset"] % 1024 == source  # x lies behind 1024 elements
    assert copy["to"]["shape"] == copy["from"]["shape"] == copied


def test_a_host_argument_is_copied_to_the_device(planning, tmp_path):
    plan = planning.plan(
        tmp_path,
        "def f(x, y):\n    y.copy_(x)\n    x.copy_(y)\n",
        [tensor(100, space="host"), PAIR[1]],
    )

    copies = steps(plan, "copy")
    assert [(each["from"]["buffer"], each["to"]["buffer"]) for each in copies] == [(0, 1), (1, 0)]


def test_a_module_that_can_not_be_executed(planning, tmp_path):
    refused = planning.plan(tmp_path, "import torch\n1 / 0\n", PAIR)

    assert refused["code"] == "import_failed"
    assert (refused["type"], refused["line"]) == ("ZeroDivisionError", 2)
    assert planning.plan(tmp_path, "def f(x:\n", PAIR)["line"] == 1
    assert planning.plan(tmp_path, "def g(): pass\n", PAIR)["functions"] == ["g"]
    assert planning.plan(tmp_path, "def f(x): pass\n", PAIR)["signature"] == "(x)"


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ("for _ in range(20001): y.zero_()", "20,000"),
        ("a = [torch.empty(1, device='cuda') for _ in range(4097)]", "4,096"),
        ("a = torch.empty(1 << 32, device='cuda')", "2,147,483,648"),
        ("a = torch.arange(9000, dtype=torch.float64).cuda()", "65,536"),
        ("for i in range(4097): copy[(1,)](x, y, 100, 0, BLOCK=64)", "4,096"),
        ("for i in range(257): copy[(1,)](x, y, 100, i, BLOCK=64)", "256"),
    ],
)
def test_limits_name_their_number(planning, tmp_path, body, limit):
    head = HEAD.replace("x, y, n, BLOCK", "x, y, n, K: tl.constexpr, BLOCK")
    refused = planning.plan(tmp_path, f"{head}def f(x, y):\n    {body}\n", PAIR)

    assert refused.get("type") in ("PlanLimit", "TooManyLaunches", "TooMuchMemory"), refused
    assert limit in refused["message"]


def test_printed_text_is_bounded(planning, tmp_path):
    plan = planning.plan(tmp_path, "def f(x, y):\n    print('a' * 50_000)\n", PAIR)

    assert plan["printed"] == "a" * 16_384


def test_an_exception_of_the_launcher(planning, tmp_path):
    text = "def g():\n    raise KeyError('k')\ndef f(x, y):\n    g()\n"
    refused = planning.plan(tmp_path, text, PAIR)

    assert (refused["code"], refused["type"], refused["line"]) == ("raised", "KeyError", 2)
    assert "submission.py:4 in f: g()" in refused["detail"]


def test_a_tensor_of_one_value_that_the_host_sends_is_a_fill(planning, tmp_path):
    text = (
        "import torch\n"
        "def f(x, y):\n"
        "    torch.ones(1 << 20).cuda()\n"
        "    y.copy_(torch.full((100,), float('inf')))\n"
        "    y[:2].copy_(torch.tensor([1.0, 2.0]))\n"
    )
    plan = planning.plan(tmp_path, text, PAIR)

    assert [each["value"] for each in steps(plan, "fill")] == [1.0, "inf"]
    assert len(steps(plan, "upload")) == 1


def test_a_handle_of_cublas_can_be_made_and_its_product_is_foreign(planning, tmp_path):
    text = (
        "import torch\nfrom triton._C.libtriton import nvidia\n"
        "blas = nvidia.cublas.CublasLt(torch.empty(1024, device='cuda', dtype=torch.uint8))\n"
        "def f(x, y):\n    blas.matmul(x, x, y)\n"
    )
    (foreign,) = steps(planning.plan(tmp_path, text, PAIR), "foreign")
    assert (foreign["operation"], foreign["line"]) == ("cublas::matmul", 5)
    assert [each["buffer"] for each in foreign["inputs"] + foreign["outputs"]] == [0, 0, 1]
