"""Small changes of a submission's text, each of which may undo a student's mistake.

likely_edits.ranked(source, ...)    those to try, the likeliest first
proposals.edits_of(scope)           all changes of a function, by the rules of schemas and *_edits
edit_scope.Edit                     a change, and the words for it
"""
