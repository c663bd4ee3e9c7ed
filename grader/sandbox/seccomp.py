"""The system calls no submission needs, as a seccomp program that libseccomp compiles.

A list of what is refused: what reaches beyond the process (network, other processes' limits and
priorities, System V objects that outlive everyone), what widens the kernel's surface (io_uring,
bpf, user namespaces), and what Landlock leaves open (permissions and times of files that belong
to the same user). Everything else passes, since torch, CUDA and the compiler use most of it.
Sources: the manual pages of section 2 and landlock(7).
"""

from __future__ import annotations

import errno
import os
import socket
from functools import lru_cache
from typing import Any

from grader.gpu.devices import DeviceName

# Refused whatever the arguments.
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
_OBJECTS = (  # they belong to no process and stay when all have ended
    "memfd_secret mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl "
    "msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmdt shmget"
)
# Landlock knows nothing of these, and bubblewrap's device files are the machine's own.
_METADATA = (
    "chmod chown fchmod fchmodat fchown fchownat fremovexattr fsetxattr futimesat lchown "
    "lremovexattr lsetxattr mknod mknodat removexattr setxattr utime utimensat utimes"
)
# Younger than the libseccomp of many systems; these numbers are the same on every architecture.
_YOUNG = {
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "open_tree_attr": 467,
    "file_setattr": 469,
}
_SIGNALS = "kill pidfd_send_signal rt_sigqueueinfo rt_tgsigqueueinfo tgkill tkill"
_NETWORK = "accept accept4 bind connect listen socketcall"

# What a program in the emulator needs once it has started.
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
_F_SETOWN, _F_SETOWN_EX = 8, 15
_FIOSETOWN, _SIOCSPGRP, _TIOCSTI, _TIOCLINUX = 0x8901, 0x8902, 0x5412, 0x541C
_SOCKET_TYPE_MASK = 0xF
_LOW = 0xFFFFFFFF  # all the kernel reads of an int: comparing 64 bits would be easy to evade


class FilterError(RuntimeError):
    """The filter can't be made here: the message says what is missing and what to install."""


@lru_cache(maxsize=8)
def compile_filter(
    device: DeviceName, *, own_namespaces: bool = False, signals_scoped: bool = False
) -> bytes:
    """The filter as the kernel takes it: an array of `struct sock_filter`, 8 bytes each.

    `own_namespaces`: the worker has a network and process numbers of its own.
    `signals_scoped`: something else keeps its signals from others' processes.
    Raises FilterError when libseccomp or its binding isn't installed.
    """
    seccomp = _library()
    program = seccomp.SyscallFilter(seccomp.ALLOW)
    refuse = seccomp.ERRNO(errno.EPERM)
    names = [_KERNEL, _IDENTITY, _CLOCK, _OTHERS, _OBJECTS, _METADATA]
    if not (own_namespaces or signals_scoped):
        names.append(_SIGNALS)
    if device != "cuda":
        names.append(_NETWORK)
    for name in " ".join(names).split():
        _add(seccomp, program, refuse, name)
    for number in _YOUNG.values():
        program.add_rule(refuse, number)
    _refuse_by_argument(seccomp, program)
    _refuse_sockets(seccomp, program, device, own_namespaces)
    # "No such system call": libraries fall back to what can be looked at, or to a file.
    missing = seccomp.ERRNO(errno.ENOSYS)
    _add(seccomp, program, missing, "clone3")
    if device != "cuda":
        _add(seccomp, program, missing, "memfd_create")  # memory that no count of pages shows
    return _exported(program)


@lru_cache(maxsize=1)
def compile_emulator_filter() -> bytes:
    """The last filter, which a program in the emulator puts on before a submission's code runs.

    A list of what is allowed, unlike the other: the program is ours but for the kernels, and what
    it needs is known (worker/native/lockdown.cpp). Anything else ends it. Raises FilterError as
    `compile_filter` does.
    """
    seccomp = _library()
    program = seccomp.SyscallFilter(seccomp.KILL_PROCESS)
    for name in _EMULATOR.split():
        _add(seccomp, program, seccomp.ALLOW, name)
    arg, refuse = seccomp.Arg, seccomp.ERRNO(errno.EPERM)
    _add(seccomp, program, seccomp.ALLOW, "openat", arg(2, seccomp.MASKED_EQ, _WRITING, 0))
    for name in ("lseek", "ioctl"):  # the C library asks whether a log is a terminal
        _add(seccomp, program, refuse, name)
    return _exported(program)


def _refuse_by_argument(seccomp: Any, program: Any) -> None:
    """What is refused only for some arguments: new namespaces, other processes."""
    refuse, arg = seccomp.ERRNO(errno.EPERM), seccomp.Arg
    for flag in _NEW_NAMESPACES:
        _add(seccomp, program, refuse, "clone", arg(0, seccomp.MASKED_EQ, flag, flag))
    for name in ("prlimit64", "sched_setaffinity"):  # 0 is the caller itself
        _add(seccomp, program, refuse, name, arg(0, seccomp.NE, 0))
    for command in (_F_SETOWN, _F_SETOWN_EX):  # has the kernel signal whoever is named
        _add(seccomp, program, refuse, "fcntl", arg(1, seccomp.MASKED_EQ, _LOW, command))
    for request in (_FIOSETOWN, _SIOCSPGRP, _TIOCSTI, _TIOCLINUX):
        _add(seccomp, program, refuse, "ioctl", arg(1, seccomp.MASKED_EQ, _LOW, request))


def _refuse_sockets(seccomp: Any, program: Any, device: DeviceName, own_namespaces: bool) -> None:
    """No sockets but pairs; on a GPU also local ones, which the driver makes.

    A pair of datagram sockets can still be sent from to any name, so those are refused too.
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
