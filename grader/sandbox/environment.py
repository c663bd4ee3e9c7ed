"""The environment of a sandbox's processes: nothing of the grader's but where programs are."""

from __future__ import annotations

import os
from pathlib import Path

from grader.gpu.devices import DeviceName


def environment_of(
    device: DeviceName, scratch: Path, kernels: Path | None = None
) -> dict[str, str]:
    """The variables, of which HOME and TMPDIR lead to the scratch folder.

    What torch.compile makes is kept in the folder `kernels`, if there is one.
    """
    environment = {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "TRITON_CACHE_DIR": str((kernels or scratch) / "triton"),
        "USER": "worker",  # the user may have no entry inside from which to look up the name
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        # torch.compile would start a process for each core, and import torch there.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Triton 3.9 requires a choice; earlier releases always fused multiply and add.
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    if kernels is not None:
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(kernels / "inductor")
    if device != "cuda":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    else:
        keep = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "TRITON_LIBCUDA_PATH")
        environment |= {name: os.environ[name] for name in keep if name in os.environ}
    return environment
