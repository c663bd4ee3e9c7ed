"""The time of the commit that a clone has checked out, read without running git.

An untrusted repository can make git run programs by its configuration, its hooks or a remote. Here
its files are only read: .git/HEAD, the reference it names, and the commit as a loose object or from
a pack (gitformat-pack and gitformat-index of git's documentation). No link is followed, and sizes
are limited. The time is the committer's, by the author's computer: whoever commits can set it.
"""

from __future__ import annotations

import bisect
import mmap
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

from grader.grading.submitted import folder_in

_LONGEST_TEXT = 16 << 20  # bytes of packed-refs
_LONGEST_OBJECT = 1 << 20  # bytes of a commit, or of what it is stored as a difference from
_MOST_LINKS = 5  # references that name references
_MOST_DELTAS = 200  # differences on differences, of _LONGEST_OBJECT bytes in all; git makes 50
_MOST_PACKS = 1000
_MOST_INDEXES = 4000  # opened for one commit; a difference may look for its base in all of them
_SHA = re.compile(r"[0-9a-f]{40}")
_REFERENCE = re.compile(r"refs(/[\w.+@#-]+)+")
_COMMITTER = re.compile(rb"^committer [^\n]*> (-?\d{1,12}) ([+-])(\d\d)(\d\d)$", re.MULTILINE)
_COMMIT, _OFFSET_DELTA, _REFERENCE_DELTA = 1, 6, 7


class _NotFound(Exception):
    """The repository is in a form that this module doesn't read."""


def commit_time(repository: Path) -> datetime | None:
    """When the commit that HEAD names was committed; None where that can't be read."""
    try:
        with folder_in(repository, ".git") as git:
            commit = _object(git, _head(git))
        committer = _COMMITTER.search(commit.partition(b"\n\n")[0])
        if committer is None:
            return None
        seconds, sign, hours, minutes = committer.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        zone = timezone(-offset if sign == b"-" else offset)
        return datetime.fromtimestamp(int(seconds), zone)
    except (_NotFound, OSError, ValueError, OverflowError, IndexError, struct.error, zlib.error):
        return None


# --- files of a repository, no link among them ---------------------------------------------------


def _read(git: int, path: str, limit: int) -> bytes:
    folder, _, name = path.rpartition("/")
    with folder_in(git, folder or ".") as inside:
        descriptor = _open(inside, name)
        with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, no path)
            data = file.read(limit + 1)
    if len(data) > limit:
        raise _NotFound
    return data


def _open(folder: int, name: str) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _NotFound
    return descriptor


# --- what HEAD names -----------------------------------------------------------------------------


def _head(git: int) -> str:
    """The commit, as 40 hexadecimal digits."""
    name = "HEAD"
    for _ in range(_MOST_LINKS):
        try:
            text = _read(git, name, 4096).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return _packed_reference(git, name)
        if _SHA.fullmatch(text):
            return text
        name = text.removeprefix("ref:").strip()
        if name == text or not _REFERENCE.fullmatch(name) or ".." in name:
            raise _NotFound
    raise _NotFound


def _packed_reference(git: int, name: str) -> str:
    for line in _read(git, "packed-refs", _LONGEST_TEXT).decode("utf-8", "replace").splitlines():
        sha, _, named = line.partition(" ")
        if named == name and _SHA.fullmatch(sha):
            return sha
    raise _NotFound


# --- objects -------------------------------------------------------------------------------------


def _object(git: int, sha: str) -> bytes:
    """The contents of the commit `sha`."""
    try:
        packed = _read(git, f"objects/{sha[:2]}/{sha[2:]}", _LONGEST_OBJECT)
    except FileNotFoundError:
        kind, data = _from_packs(git, bytes.fromhex(sha), _LONGEST_OBJECT)
        if kind != _COMMIT:
            raise _NotFound from None
        return data
    header, _, data = _inflated(packed).partition(b"\0")
    if not header.startswith(b"commit "):
        raise _NotFound
    return data


def _inflated(packed: bytes | memoryview) -> bytes:
    stream = zlib.decompressobj()
    data = stream.decompress(packed, _LONGEST_OBJECT)
    if not stream.eof:
        raise _NotFound
    return data


def _from_packs(git: int, sha: bytes, budget: int) -> tuple[int, bytes]:
    """The kind and the contents of an object; `budget` bounds the differences that lead to it."""
    with folder_in(git, "objects/pack") as folder:
        listed = os.listdir(folder)  # noqa: PTH208 (a descriptor, no path)
        names = sorted(name for name in listed if name.endswith(".idx"))
        for name in names[:_MOST_PACKS]:
            budget -= _LONGEST_OBJECT // _MOST_INDEXES
            with _mapped(folder, name) as index:
                offset = _offset(index, sha)
            if offset is not None:
                with _mapped(folder, f"{name[:-4]}.pack") as pack:
                    return _packed(git, pack, offset, budget)
    raise _NotFound


@contextmanager
def _mapped(folder: int, name: str) -> Iterator[mmap.mmap]:
    descriptor = _open(folder, name)
    try:
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as mapped:
            yield mapped
    finally:
        os.close(descriptor)


def _offset(index: mmap.mmap, sha: bytes) -> int | None:
    """The offset of an object in its pack, by an index of version 2."""
    if index[:8] != b"\xfftOc\0\0\0\2":
        return None
    fanout = (0, *struct.unpack_from(">256I", index, 8))
    low, high, total = fanout[sha[0]], fanout[sha[0] + 1], fanout[-1]
    names = 8 + 4 * 256

    def name(number: int) -> bytes:
        return index[names + 20 * number : names + 20 * (number + 1)]

    number = low + bisect.bisect_left(range(low, high), sha, key=name)
    if number >= high or name(number) != sha:
        return None
    offsets = names + 24 * total  # behind the names and a checksum for each
    offset: int = struct.unpack_from(">I", index, offsets + 4 * number)[0]
    if offset >= 1 << 31:
        place = offsets + 4 * total + 8 * (offset & 0x7FFFFFFF)
        offset = struct.unpack_from(">Q", index, place)[0]
    return offset


def _packed(git: int, pack: mmap.mmap, offset: int, budget: int) -> tuple[int, bytes]:
    """The kind and the contents of the object at `offset`, differences applied."""
    deltas: list[bytes] = []
    while True:
        if budget < 0 or offset < 12:
            raise _NotFound
        kind = pack[offset] >> 4 & 7
        at = offset
        while pack[at] & 0x80:
            at += 1
        at += 1
        back, base = 0, b""
        if kind == _OFFSET_DELTA:
            back, at = _distance(pack, at)
        elif kind == _REFERENCE_DELTA:
            base, at = pack[at : at + 20], at + 20
        data = _inflated(pack[at : at + _LONGEST_OBJECT])
        if kind not in (_OFFSET_DELTA, _REFERENCE_DELTA):
            break
        deltas.append(data)
        budget -= max(len(data), _LONGEST_OBJECT // _MOST_DELTAS)
        if kind == _REFERENCE_DELTA:
            kind, data = _from_packs(git, base, budget)
            break
        offset -= back
    for delta in reversed(deltas):
        data = _applied(delta, data)
    return kind, data


def _distance(pack: mmap.mmap, at: int) -> tuple[int, int]:
    """The distance back to the base of a difference, and where the difference begins."""
    value = pack[at] & 0x7F
    while pack[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | pack[at] & 0x7F
        if value > 1 << 62:
            raise _NotFound
    return value, at + 1


def _applied(delta: bytes, base: bytes) -> bytes:
    """`base` with `delta` applied: copies from the base, and insertions."""
    at = 0
    for _ in range(2):  # the sizes of the base and of the result
        while delta[at] & 0x80:
            at += 1
        at += 1
    made = bytearray()
    while at < len(delta):
        operation = delta[at]
        at += 1
        if operation & 0x80:
            numbers = [0] * 7
            for bit in range(7):
                if operation & 1 << bit:
                    numbers[bit] = delta[at]
                    at += 1
            start = int.from_bytes(bytes(numbers[:4]), "little")
            size = int.from_bytes(bytes(numbers[4:]), "little") or 0x10000
            made += base[start : start + size]
        elif operation:
            made += delta[at : at + operation]
            at += operation
        else:
            raise _NotFound
        if len(made) > _LONGEST_OBJECT:
            raise _NotFound
    return bytes(made)
