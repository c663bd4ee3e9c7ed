"""The autograder that runs in Gradescope's container, and the zip it is uploaded as."""
