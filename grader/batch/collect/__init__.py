"""Hand-ins from a platform's export: `collect` reads a class in any of the known layouts.

    class_layouts   which of the known layouts a source has, and its hand-ins
      canvas_zip  gradescope_export  classroom_clones   what these platforms' names and files say
    sources         a folder or a zip as parts, and their hand-ins
    choosing        of a hand-in's files those that exercises name
      file_names      how a file's name may differ from the one in the spec
    archives        zip and tar, read in memory and within limits
    git_time        the time of a commit, without running git
    files           what can be read, and why it can't

Everything in a hand-in is untrusted: nothing is unpacked to the disk, no link is followed, nothing
but a regular file is opened, and no size is believed before it was measured.
"""

from __future__ import annotations

from grader.batch.collect.class_layouts import LAYOUTS, Collection, collect

__all__ = ["LAYOUTS", "Collection", "collect"]
