"""A filter of system calls that no submission needs, as a seccomp program made by libseccomp.

It is a list of refusals: calls that reach beyond the process (network, other processes' limits and
priorities, System V objects, which outlive all processes), that widen the kernel's attack surface
(io_uring, bpf, user namespaces), and that Landlock leaves open (modes, times and flags of files of
the same user). Other calls pass, since torch, CUDA and the compiler use most of them. Sources: the
manual pages of section 2 and landlock(7).
"""

from __future__ import annotations

import errno
import os
import socket
from functools import lru_cache
from typing import Any

from grader.gpu.devices import DeviceName

# Refused for all arguments.
_KERNEL = (
    "acct add_key afs_syscall bpf delete_module fanotify_init fanotify_mark finit_module fsconfig "
    "fsmount fsopen fspick get_kernel_syms init_module io_cancel io_destroy io_getevents "
    "io_pgetevents io_setup io_submit io_uring_enter io_uring_register io_uring_setup ioperm iopl "
    "kcmp kexec_file_load kexec_load keyctl lookup_dcookie modify_ldt mount mount_setattr "
    "move_mount name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open "
    "personality pivot_root query_module quotactl quotactl_fd reboot request_key setns swapoff "
    "swapon sync syncfs syslog umount umount2 unshare uselib userfaultfd ustat vhangup vmsplice"
)
_IDENTITY = (
    "chroot setdomainname setgid setgroups sethostname setregid setresgid setresuid setreuid setuid"
)
_CLOCK = "adjtimex clock_adjtime clock_settime settimeofday stime"
_OTHERS = (  # other processes: their memory, descriptors, priorities
    "get_robust_list ioprio_set migrate_pages move_pages pidfd_getfd process_madvise "
    "process_mrelease process_vm_readv process_vm_writev ptrace sched_setattr sched_setparam "
    "sched_setscheduler setpriority"
)
_OBJECTS = (  # they belong to no process and outlive all
    "memfd_secret mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl "
    "msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmdt shmget"
)
# Landlock doesn't cover these, and bubblewrap's device files are the machine's own.
_METADATA = (
    "chmod chown fchmod fchmodat fchown fchownat fremovexattr fsetxattr futimesat lchown "
    "lremovexattr lsetxattr mknod mknodat removexattr setxattr utime utimensat utimes"
)
# Newer than many systems' libseccomp; these numbers are the same on every architecture.
_YOUNG = {
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "open_tree_attr": 467,
    "file_setattr": 469,
}
_SIGNALS = "kill pidfd_send_signal rt_sigqueueinfo rt_tgsigqueueinfo tgkill tkill"
_GROUPS = "setpgid setsid"
_NETWORK = "accept accept4 bind connect listen socketcall"
# Landlock lets a process watch a folder that it can't list: it learns what others make there.
_WATCHES = "inotify_add_watch inotify_init inotify_init1"

# Calls of a running program in the emulator.
_EMULATOR = (
    "brk clock_gettime clock_nanosleep close exit exit_group fstat futex getpid getrandom gettid "
    "madvise mmap mprotect mremap munmap newfstatat pread64 prlimit64 read recvfrom recvmsg "
    "restart_syscall rt_sigaction rt_sigprocmask rt_sigreturn sched_getaffinity sched_yield "
    "sendmsg sendto sigaltstack tgkill write writev"
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_NEW_NAMESPACES = (
    *(0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000),
    *(0x00020000, 0x00000080),  # CLONE_NEWNS, CLONE_NEWTIME
)
_F_SETOWN, _F_SETOWN_EX, _F_SETLEASE = 8, 15, 1024
_FIOSETOWN, _SIOCSPGRP, _TIOCSTI, _TIOCLINUX = 0x8901, 0x8902, 0x5412, 0x541C
_TERMINALS = 0x5400, 0x54FF  # requests to terminals, and those to any descriptor: FIONBIO, FIOCLEX
# Those that change files opened for reading: ext2 to ext4 (two), XFS and all, Btrfs, F2FS.
_FILE_SYSTEMS, _REQUEST_KIND_MASK = (0x66, 0x76, 0x58, 0x94, 0xF5), 0xFF00
_SOCKET_TYPE_MASK = 0xF
_LOW = 0xFFFFFFFF  # the part of an int that the kernel reads: comparing 64 bits is easily evaded


class FilterError(RuntimeError):
    """The filter can't be made here: the message says what to install."""


@lru_cache(maxsize=8)
def compile_filter(device: DeviceName, *, own_namespaces: bool = False) -> bytes:
    """The filter for the kernel: an array of `struct sock_filter`, 8 bytes each.

    `own_namespaces`: the worker has a network and process numbers of its own. Raises FilterError
    when libseccomp or its binding isn't installed.
    """
    seccomp = _library()
    program = seccomp.SyscallFilter(seccomp.ALLOW)
    refuse = seccomp.ERRNO(errno.EPERM)
    names = [_KERNEL, _IDENTITY, _CLOCK, _OTHERS, _OBJECTS, _METADATA]
    if device != "cuda":
        names += [_NETWORK, _WATCHES]
    for name in " ".join(names).split():
        _add(seccomp, program, refuse, name)
    for number in _YOUNG.values():
        program.add_rule(refuse, number)
    _refuse_by_argument(seccomp, program)
    _refuse_file_requests(seccomp, program, device)
    _refuse_sockets(seccomp, program, device, own_namespaces)
    # "No such system call": libraries fall back to calls that the filter can check, or to a file.
    missing = seccomp.ERRNO(errno.ENOSYS)
    _add(seccomp, program, missing, "clone3")
    if device != "cuda":
        _add(seccomp, program, missing, "memfd_create")  # memory that page counts don't show
    return _exported(program)


@lru_cache(maxsize=2)
def compile_worker_filter(*, signals_reach_others: bool) -> bytes:
    """The filter that each worker has besides the fork server's, which needs these calls.

    No process leaves its worker's group, so that one signal to the group ends them all, even if
    each forks the next and is gone before anybody sees it. Raises FilterError as `compile_filter`
    does.
    """
    seccomp = _library()
    program = seccomp.SyscallFilter(seccomp.ALLOW)
    for name in (_GROUPS + " " + _SIGNALS if signals_reach_others else _GROUPS).split():
        _add(seccomp, program, seccomp.ERRNO(errno.EPERM), name)
    return _exported(program)


@lru_cache(maxsize=1)
def compile_emulator_filter() -> bytes:
    """The filter that a program in the emulator installs before a submission's code runs.

    It is a list of allowed calls, since the program is ours except for the kernels, and its needs
    are known (worker/native/lockdown.cpp). Any other call ends it. Raises FilterError as
    `compile_filter` does.
    """
    seccomp = _library()
    program = seccomp.SyscallFilter(seccomp.KILL_PROCESS)
    for name in _EMULATOR.split():
        _add(seccomp, program, seccomp.ALLOW, name)
    arg, refuse = seccomp.Arg, seccomp.ERRNO(errno.EPERM)
    _add(seccomp, program, seccomp.ALLOW, "openat", arg(2, seccomp.MASKED_EQ, _WRITING, 0))
    for name in ("lseek", "ioctl"):  # the C library tests whether a log is a terminal
        _add(seccomp, program, refuse, name)
    return _exported(program)


def _refuse_by_argument(seccomp: Any, program: Any) -> None:
    """Refuse calls for some arguments only: new namespaces, other processes, closed folders."""
    refuse, arg = seccomp.ERRNO(errno.EPERM), seccomp.Arg
    for flag in _NEW_NAMESPACES:
        _add(seccomp, program, refuse, "clone", arg(0, seccomp.MASKED_EQ, flag, flag))
    for name in ("prlimit64", "sched_setaffinity"):  # 0 is the caller itself
        _add(seccomp, program, refuse, name, arg(0, seccomp.NE, 0))
    # A folder without its owner's rights couldn't be emptied later, since modes can't be changed.
    for right in (0o400, 0o200, 0o100):
        _add(seccomp, program, refuse, "mkdir", arg(1, seccomp.MASKED_EQ, right, 0))
        _add(seccomp, program, refuse, "mkdirat", arg(2, seccomp.MASKED_EQ, right, 0))
        _add(seccomp, program, refuse, "umask", arg(0, seccomp.MASKED_EQ, right, right))
    # The kernel would signal another process, or make one wait that opens the file to write.
    for command in (_F_SETOWN, _F_SETOWN_EX, _F_SETLEASE):
        _add(seccomp, program, refuse, "fcntl", arg(1, seccomp.MASKED_EQ, _LOW, command))
    for request in (_FIOSETOWN, _SIOCSPGRP, _TIOCSTI, _TIOCLINUX):
        _add(seccomp, program, refuse, "ioctl", arg(1, seccomp.MASKED_EQ, _LOW, request))


def _refuse_file_requests(seccomp: Any, program: Any, device: DeviceName) -> None:
    """Refuse requests by which a file's owner changes its flags and attributes.

    They need no more than a descriptor for reading, so neither Landlock nor modes stop them. What
    they leave would outlive the submission. On a GPU the driver has requests of all other kinds.
    """
    refuse, arg = seccomp.ERRNO(errno.EPERM), seccomp.Arg
    if device != "cuda":
        _add(seccomp, program, refuse, "ioctl", arg(1, seccomp.LT, _TERMINALS[0]))
        _add(seccomp, program, refuse, "ioctl", arg(1, seccomp.GT, _TERMINALS[1]))
        return
    for kind in _FILE_SYSTEMS:
        asked = arg(1, seccomp.MASKED_EQ, _REQUEST_KIND_MASK, kind << 8)
        _add(seccomp, program, refuse, "ioctl", asked)


def _refuse_sockets(seccomp: Any, program: Any, device: DeviceName, own_namespaces: bool) -> None:
    """Allow only pairs of sockets, and on a GPU local ones, which the driver makes.

    Pairs of datagram sockets are refused too: they can send to any name.
    """
    refuse, arg = seccomp.ERRNO(errno.EPERM), seccomp.Arg
    if device != "cuda":
        _add(seccomp, program, refuse, "socket")
    else:
        _add(seccomp, program, refuse, "socket", arg(0, seccomp.NE, int(socket.AF_UNIX)))
    _add(seccomp, program, refuse, "socketpair", arg(0, seccomp.NE, int(socket.AF_UNIX)))
    if device == "cuda" and own_namespaces:
        return
    datagram = arg(1, seccomp.MASKED_EQ, _SOCKET_TYPE_MASK, int(socket.SOCK_DGRAM))
    raw = arg(1, seccomp.MASKED_EQ, _SOCKET_TYPE_MASK, int(socket.SOCK_RAW))  # same, for AF_UNIX
    names = ("socketpair",) if device != "cuda" else ("socketpair", "socket")
    for name in names:
        _add(seccomp, program, refuse, name, datagram)
        _add(seccomp, program, refuse, name, raw)
    if device == "cuda":
        _add(seccomp, program, refuse, "connect")


def _add(seccomp: Any, program: Any, action: int, name: str, *arguments: Any) -> None:
    number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
    if number >= 0:  # else this architecture has no such call
        program.add_rule(action, number, *arguments)


def _exported(program: Any) -> bytes:
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()


def _library() -> Any:
    try:
        import pyseccomp
    except ImportError:
        raise FilterError("pyseccomp isn't installed: pip install pyseccomp") from None
    except (RuntimeError, OSError, AttributeError):
        raise FilterError("libseccomp isn't installed: apt install libseccomp2") from None
    return pyseccomp
