"""The confinement of workers: the levels that this machine offers, and their command lines.

    bubblewrap   namespaces: a file tree, process numbers and a network of its own
    landlock     no namespaces: the kernel checks paths, signals and TCP by rules
    limits       bounds on memory, time and files only: never enough for a final grade

The first two add a system call filter (seccomp.py). `probe` tests each level: it starts a small
process in it that tries what must be impossible.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

from grader.gpu.devices import DeviceName
from grader.mistakes import Mistake
from grader.sandbox import allowed_paths, cgroup, processes
from grader.sandbox.seccomp import FilterError, compile_filter, compile_worker_filter

SCRATCH_BYTES = 512 << 20  # of a scratch folder in memory
OLDEST_LANDLOCK = 3  # Linux 6.2: older ones don't stop truncate(2)
SCOPED_LANDLOCK = 6  # Linux 6.12: from here on it confines signals
TRIAL_SECONDS = 20.0
_NOBODY = "65534"
_TRIAL_PROGRAM = allowed_paths.WORKER_FOLDER / "lockdown.py"


class ConfinementError(Mistake, RuntimeError):
    """The requested confinement isn't available: the message says why and what to do."""


class Level(str, Enum):
    """Levels of confinement, strongest first."""

    bubblewrap = "bubblewrap"
    landlock = "landlock"
    limits = "limits"


@dataclass(frozen=True)
class Offer:
    """Whether one level works here."""

    level: Level
    works: bool
    reason: str = ""  # why not
    advice: str = ""  # the remedy


@dataclass(frozen=True)
class Confinement:
    """A sandbox's confinement, with descriptions for reports."""

    level: Level
    device: DeviceName
    in_force: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def as_evidence(self) -> dict[str, Any]:
        """For the evidence: the protections in force, and those missing."""
        return {"in_force": list(self.in_force), "missing": list(self.missing)}

    @property
    def is_enough(self) -> bool:
        """Whether it may hold an untrusted submission whose grade is final."""
        return self.level is not Level.limits

    @property
    def has_own_pids(self) -> bool:
        """Whether processes inside have numbers of their own (see `outer_pid`)."""
        return self.level is Level.bubblewrap


def choose(
    wanted: Level | None = None, device: DeviceName = "cpu", required: bool = False
) -> Confinement:
    """The strongest confinement that works here, or the wanted one.

    Raises ConfinementError when the wanted one doesn't work, and where one is `required` but only
    limits would be left.
    """
    refused = []
    for level in [wanted] if wanted else Level:
        offer = _try(level, device)
        if offer.works and not (required and level is Level.limits):
            return Confinement(level, device, *_words(level, device))
        if not offer.works:
            refused.append(f"no {level.value}: {offer.reason}. {offer.advice}".strip())
    raise ConfinementError(" ".join(refused) or "limits alone don't hold untrusted code")


def probe(device: DeviceName = "cpu") -> list[Offer]:
    """Every level, strongest first, and whether it works here. Tested once per process."""
    return [_try(level, device) for level in Level]


def command(
    confinement: Confinement,
    argv: Sequence[str],
    *,
    scratch: Path,
    submission: Path,
    environment: Mapping[str, str],
) -> list[str]:
    """The command line that starts `argv` confined, in the folder `scratch`.

    The plan for worker/lockdown.py is appended to `argv`. Paths are the same inside and outside.
    `scratch` is the only writable folder (at level bubblewrap, an empty one in memory covers it);
    `submission` is read-only and must not be inside `scratch`. Descriptors that the caller passes
    stay open. Raises ConfinementError for a folder in an unsuitable place.
    """
    if submission.resolve().is_relative_to(scratch.resolve()):
        raise ConfinementError(f"{submission} is inside {scratch}, so it would not be read-only")
    inner = [*argv, json.dumps(lockdown_plan(confinement, scratch, submission))]
    if confinement.level is not Level.bubblewrap:
        return inner
    return [*_bubblewrap(confinement.device, scratch, submission, environment), *inner]


def outer_pid(inner: int, parent: int) -> int | None:
    """The descendant of `parent` with the number `inner` in its innermost namespace, or None.

    Without namespaces both numbers are the same.
    """
    for pid in sorted(processes.children(parent), reverse=True):  # mostly the youngest
        if _innermost(pid) == inner:
            return pid
    try:
        below = psutil.Process(parent).children(recursive=True)
    except psutil.Error:
        return None
    return next((each.pid for each in below if _innermost(each.pid) == inner), None)


# --- trying ---------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _try(level: Level, device: DeviceName) -> Offer:
    if level is Level.limits:
        return Offer(level, True)
    if sys.platform != "linux":
        return Offer(level, False, "it needs Linux", "Grade untrusted files on Linux.")
    try:
        if level is Level.bubblewrap:
            _look_for_bubblewrap(device)
        else:
            _look_for_landlock(device)
        _run_trial(level, device)
    except _Unavailable as error:
        return Offer(level, False, error.reason, error.advice)
    return Offer(level, True)


class _Unavailable(Exception):
    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


def _look_for_bubblewrap(device: DeviceName) -> None:
    if shutil.which("bwrap") is None:
        raise _Unavailable("bubblewrap isn't installed", "apt install bubblewrap")
    if os.geteuid() == 0:  # root owns the device files inside too: only the filter protects them
        _filter_or_unavailable(Level.bubblewrap, device)


def _look_for_landlock(device: DeviceName) -> None:
    abi = landlock_version()
    if abi is None:
        raise _Unavailable("landlockpy isn't installed", "pip install landlockpy")
    if abi == 0:
        advice = "It needs Linux 6.2 with `landlock` in the kernel's `lsm=` list."
        raise _Unavailable("this kernel has no Landlock, or it is switched off", advice)
    if abi < OLDEST_LANDLOCK:
        advice = "Linux 6.2 or newer has it."
        raise _Unavailable(f"Landlock is version {abi} here, {OLDEST_LANDLOCK} is needed", advice)
    _filter_or_unavailable(Level.landlock, device)


def _filter_or_unavailable(level: Level, device: DeviceName) -> None:
    reason, _, advice = _filters(level, device)[2].partition(": ")
    if reason:
        raise _Unavailable(f"{reason}, so system calls can't be filtered", advice)


@lru_cache(maxsize=1)
def landlock_version() -> int | None:
    """The kernel's Landlock ABI, 0 without Landlock; None where the binding isn't installed."""
    try:
        import landlockpy
    except ImportError:
        return None
    try:
        return landlockpy.abi_version()
    except OSError:
        return 0


def _run_trial(level: Level, device: DeviceName) -> None:
    """Start a process that tries to escape. Raises _Unavailable if it can't start or escapes."""
    with tempfile.TemporaryDirectory(prefix="warpgrade-") as folder:
        root = Path(folder)
        for name in ("scratch", "submission"):
            (root / name).mkdir()
        secret = root / "secret"
        secret.write_text("secret")
        grader = 0 if level is Level.bubblewrap else os.getpid()
        argv = [sys.executable, "-I", "-B", str(_TRIAL_PROGRAM)]
        argv += [str(root / "scratch"), str(secret), str(grader), device]
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(root / "scratch")}
        if device == "cuda" and "LD_LIBRARY_PATH" in os.environ:  # perhaps the driver's folder
            environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        line = command(
            Confinement(level, device, (), ()),
            argv,
            scratch=root / "scratch",
            submission=root / "submission",
            environment=environment,
        )
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=TRIAL_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _Unavailable(f"a trial could not be run: {error}") from None
    _judge_trial(level, done)


def _judge_trial(level: Level, done: subprocess.CompletedProcess[str]) -> None:
    try:
        violations = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        advice = ""
        if level is Level.bubblewrap and said[-1].startswith("bwrap: "):
            advice = (
                "This system or container forbids user namespaces (sysctl "
                "kernel.apparmor_restrict_unprivileged_userns and user.max_user_namespaces; for "
                "a container, its seccomp profile)."
            )
        raise _Unavailable(f"a trial failed: {said[-1][:200]}", advice) from None
    if violations:
        raise _Unavailable(f"a trial process could {', '.join(map(str, violations))}")


# --- words ----------------------------------------------------------------------------------------


def _words(level: Level, device: DeviceName) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The protections in force, and those missing."""
    in_force, missing = [], []
    if level is Level.limits:
        missing += ["hiding files", "no network", "separation from other processes"]
    else:
        in_force += ["sees only Python, libraries and its own files", "no network"]
        in_force.append("can't see, signal or trace other processes")
    if level is Level.bubblewrap:
        in_force.append("never root")
        if not _separates_workers():
            missing.append("folders of their own for a submission's compilers (Landlock)")
        if "--size" in _bubblewrap_options():
            in_force.append(f"scratch folder in memory, {SCRATCH_BYTES >> 20} MiB")
        else:
            missing.append("a bound on the scratch folder (bubblewrap 0.8 has it)")
    if level is Level.landlock:
        missing.append("names and sizes of files stay visible (no namespaces)")
        if os.geteuid() == 0:
            missing.append("it runs as root, though without root's capabilities")
    *_, trouble = _filters(level, device)
    if trouble:
        missing.append(f"a filter on system calls ({trouble})")
    else:
        in_force.append("system calls filtered")
    reason = cgroup.why_not()
    if reason:
        missing.append(f"memory and processes are counted by polling ({reason})")
    else:
        in_force.append("memory and processes bounded by cgroup v2")
    return tuple(in_force), tuple(missing)


# --- the command line -----------------------------------------------------------------------------


def lockdown_plan(confinement: Confinement, scratch: Path, submission: Path) -> dict[str, Any]:
    """The plan for worker/lockdown.py; empty at level limits."""
    level, device = confinement.level, confinement.device
    if level is Level.limits:
        return {}
    # Compiled submissions are started from the folder that holds them.
    own_programs = [str(submission.resolve())] if device != "cpu" else []
    plan: dict[str, Any] = {
        "filter": _filters(level, device)[0],
        "worker_filter": _filters(level, device)[1],
        "landlock": None,
        "separate": None,
    }
    if _separates_workers():
        devices = _real(allowed_paths.devices(device))
        plan["separate"] = {"devices": devices if level is Level.landlock else ["/dev"]}
    if level is Level.landlock:
        plan["landlock"] = {
            "read": [*_real(allowed_paths.readable(device)), str(submission.resolve())],
            "execute": [*_real(allowed_paths.executable(device)), *own_programs],
            "write": [str(scratch.resolve())],
            "devices": _real(allowed_paths.devices(device)),
            # The CUDA driver writes its threads' names there, and fails (error 304) if it can't.
            "names_threads": device == "cuda",
        }
        plan["landlock"]["read"] += _real(_about_the_machine(device))
    return plan


def _separates_workers() -> bool:
    """Whether workers can be kept out of each other's folders, at any level but limits."""
    return (landlock_version() or 0) >= OLDEST_LANDLOCK


def _about_the_machine(device: DeviceName) -> list[Path]:
    """Readable files of /proc that aren't about processes, for torch and the CUDA driver."""
    names = ["cpuinfo", "meminfo", "filesystems", "sys/vm/overcommit_memory"]
    if device == "cuda":
        names += ["driver", "devices", "modules", "version", "stat", "sys/vm"]
    return [path for name in names if (path := Path("/proc") / name).exists()]


def _real(paths: list[Path]) -> list[str]:
    return list(allowed_paths.mounts(paths).binds)


def _filters(level: Level, device: DeviceName) -> tuple[str, str, str]:
    """The filters on system calls, of all and of workers, as text, and why there are none."""
    if level is Level.limits:
        return "", "", "neither bubblewrap nor Landlock"
    scoped = level is Level.landlock and (landlock_version() or 0) >= SCOPED_LANDLOCK
    own = level is Level.bubblewrap
    try:
        of_all = compile_filter(device, own_namespaces=own)
        of_workers = compile_worker_filter(signals_reach_others=not (own or scoped))
    except FilterError as error:
        return "", "", str(error)
    return base64.b64encode(of_all).decode(), base64.b64encode(of_workers).decode(), ""


@lru_cache(maxsize=1)
def _bubblewrap_options() -> frozenset[str]:
    try:
        done = subprocess.run(["bwrap", "--help"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(word for word in (done.stdout + done.stderr).split() if word[:2] == "--")


def _bubblewrap(
    device: DeviceName, scratch: Path, submission: Path, environment: Mapping[str, str]
) -> list[str]:
    """bubblewrap and its options, without the command."""
    line = ["bwrap", "--unshare-all", "--unshare-user", "--uid", _NOBODY, "--gid", _NOBODY]
    line += ["--hostname", "worker", "--cap-drop", "ALL", "--new-session", "--die-with-parent"]
    line += ["--as-pid-1"]  # the fork server is the namespace's init: all ends with it
    if "--disable-userns" in _bubblewrap_options():
        line += ["--disable-userns"]
    # Links come first: bubblewrap creates missing parent folders of a mount.
    tree = allowed_paths.mounts(allowed_paths.readable(device))
    for link, target in tree.links.items():
        line += ["--symlink", target, link]
    for bound in tree.binds:
        line += ["--ro-bind", bound, bound]
    line += ["--proc", "/proc", "--dev", "/dev"]
    for path in allowed_paths.devices(device):
        if path.name.startswith(("nvidia", "dxg")):
            line += ["--dev-bind", str(path), str(path)]
    if "--size" in _bubblewrap_options():
        line += ["--size", str(SCRATCH_BYTES)]
    inside = str(scratch.resolve())
    line += ["--tmpfs", inside, "--ro-bind", str(submission.resolve()), str(submission.resolve())]
    # bubblewrap creates these folders in memory, without a bound on files in them.
    line += ["--remount-ro", "/dev", "--remount-ro", "/"]
    if device != "cuda":  # the CUDA driver names its threads there
        line += ["--remount-ro", "/proc"]
    line += ["--chdir", inside, "--clearenv"]
    for name, value in environment.items():
        line += ["--setenv", name, value]
    return [*line, "--"]


# --- process numbers ------------------------------------------------------------------------------


def _innermost(pid: int) -> int | None:
    """A process's number in its innermost namespace."""
    try:
        with open(f"/proc/{pid}/status", errors="replace") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("NSpid:"):
                    return int(line.split()[-1])
    except (OSError, ValueError):
        pass
    return None
