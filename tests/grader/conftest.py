"""What holds for all of the grader's own tests."""

import torch

# The tensors are small, and tests run side by side: threads would spin for a core that another has.
torch.set_num_threads(1)
