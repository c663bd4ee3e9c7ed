"""The zip that makes Gradescope grade by itself. grading/gradescope.py runs in its container."""
