"""Hand-ins out of what a platform exports: `collect` reads a class, whatever its shape.

    layouts     which of the shapes a source has, and its hand-ins
      canvas  gradescope  classroom     what these platforms' names and files say
    sources     a folder or a zip as parts: folders and files, not yet read
    choosing    of a hand-in's files those that exercises name
      names       how a file's name may differ from the one in the spec
    merging     several hand-ins of the same people
    archives    zip and tar, read in memory and within limits
    git_time    the time of a commit, without running git
    files       what can be read, and why it can't

Everything in a hand-in is hostile: nothing is unpacked to the disk, no link is followed, nothing
but a regular file is opened, and no size is believed before it was measured.
"""

from __future__ import annotations

from grader.batch.collect.layouts import LAYOUTS, CollectError, Collection, collect

__all__ = ["LAYOUTS", "CollectError", "Collection", "collect"]
