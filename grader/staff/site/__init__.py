"""The course site: handout.md as static pages, one for each lesson and exercise.

pages   the handout cut into pages, and links between its sections made links between pages
build   the pages as HTML, by MkDocs and its theme Material (extra `[site]`)
"""
