"""Executors: what runs a plan on data, in processes that never saw the submission's host code."""

from __future__ import annotations

VERSION = 31  # of what executors observe: results of another one are graded anew
