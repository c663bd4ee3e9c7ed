"""What a profile shows, in words: the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.instruments.profile.read import Place, Profile
from grader.report.message import sentence

NO_GRADE = "This is no grade. It runs your own program as `python` would, outside of the sandbox."
MOST_GAPS = 6
TERMS = {
    "device busy": "the share of the time in which some kernel, copy or fill ran",
    "wait": "the host stands still until the device is done; then it has nothing ready to run",
    "gap": "the device stands still until the host has launched something",
}


@dataclass(frozen=True)
class Sentence:
    """A sentence, with the line that it is about and whether it costs time."""

    text: str
    place: Place | None = None
    is_cost: bool = False


def headline(profile: Profile) -> str:
    """What ran where."""
    where = profile.device or "this machine's CPU"
    case = f" ({profile.case})" if profile.case else ""
    return f"{profile.target}{case} on {where}, torch {profile.torch}, {profile.date}"


def facts(profile: Profile) -> list[tuple[str, str]]:
    """Names and values: how much ran, and how long it took."""
    rows = []
    if profile.calls > 1:
        rows.append(("calls", f"{profile.calls}, after others that compile and warm up"))
    per_call = len(profile.kernels) / profile.calls
    each = f", {per_call:g} for each call" if profile.calls > 1 else ""
    rows.append(("kernels", f"{len(profile.kernels)}{each}"))
    rows.append(("time", f"{microseconds(profile.duration)} from begin to end"))
    if profile.work:
        share = 100 * profile.busy / profile.duration
        rows.append(("device busy", f"{microseconds(profile.busy)}, {share:.0f} % of the time"))
    named = [each.name for each in profile.ranges if not each.name.startswith("call ")]
    if named:
        rows.append(("your ranges", ", ".join(dict.fromkeys(named))))
    return rows


def findings(profile: Profile) -> list[Sentence]:
    """Who waited for whom, at which line."""
    ended = "The program ended with an error: this is what ran until then."
    above = [Sentence(ended, is_cost=True)] if profile.failed else []
    if not profile.work:
        return [*above, Sentence("Nothing ran on a GPU.")]
    if not (profile.waits or profile.gaps):
        idle = "The host waits nowhere, and the device always has something to do."
        return [*above, Sentence(idle)]
    return [*above, *_waits(profile), *_gaps(profile)]


def _waits(profile: Profile) -> list[Sentence]:
    """One sentence for each expression that waits, the longest first."""
    groups: dict[tuple[str, Place | None], list[float]] = {}
    for wait in profile.waits:
        groups.setdefault((wait.name, wait.place), []).append(wait.duration)
    lines = []
    for (name, place), times in sorted(groups.items(), key=lambda each: -sum(each[1])):
        many = "once" if len(times) == 1 else f"{len(times)} times"
        text = f"{name} waits here for the device, {many}, {microseconds(sum(times))} in all."
        lines.append(Sentence(sentence(text), place, True))
    return lines


def _gaps(profile: Profile) -> list[Sentence]:
    groups: dict[tuple[str, Place | None], list[float]] = {}
    for gap in profile.gaps:
        groups.setdefault((gap.cause, gap.place), []).append(gap.duration)
    ordered = sorted(groups.items(), key=lambda each: -sum(each[1]))
    lines = []
    for (cause, place), times in ordered[:MOST_GAPS]:
        gaps = "A gap" if len(times) == 1 else f"{len(times)} gaps"
        text = f"{gaps} on the device, {microseconds(sum(times))} in all: {cause}."
        lines.append(Sentence(text, place, True))
    if left := ordered[MOST_GAPS:]:
        rest = sum(sum(times) for _, times in left)
        lines.append(Sentence(f"Other gaps on the device: {microseconds(rest)} in all."))
    return lines


def microseconds(time: float) -> str:
    """A time with its unit."""
    if time >= 1e6:
        return f"{time / 1e6:.2f} s"
    return f"{time / 1e3:.2f} ms" if time >= 1e4 else f"{time:.0f} us"


def sample_lines(profiles: Sequence[Profile]) -> list[str]:
    """What to say above the stored profiles."""
    first = profiles[0]
    counts = ", ".join(
        f"{each.target.partition(':')[2]} {len(each.kernels) / each.calls:g}" for each in profiles
    )
    return [
        "There is no NVIDIA GPU here. This is a stored sample, recorded on "
        f"{first.device}, {first.date}.",
        "The program is grader/instruments/profile/samples/gelu.py.",
        f"Kernels for each call: {counts}.",
    ]
