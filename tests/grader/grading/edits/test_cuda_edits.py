"""Guards and vectors of CUDA C++: each change undoes a mistake."""

from tests.support.changed_texts import undone

CUDA = """
__global__ void k(const float* in, float* out, int n) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 v = *reinterpret_cast<const float4*>(in + 4 * t);
    if (t < n) out[t] = in[t];
}
extern "C" void f(const float* in, float* out, int n) { k<<<1, 256>>>(in, out, n); }
"""


def test_vectors_that_are_added_to_a_pointer_as_elements_are_counted_in_elements():
    assert "vector_offset" in undone(CUDA, "(in + 4 * t)", "(in + t)", is_triton=False)


def test_an_unguarded_store_of_what_is_loaded_gets_a_condition():
    store = "out[t] = in[t];"
    assert "no_guard" in undone(CUDA, f"if (t < n) {store}", store, is_triton=False)
