import torch

# One thread: results do not depend on the machine's cores, and parallel test runs do not fight for them.
torch.set_num_threads(1)
