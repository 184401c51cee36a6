import os

import torch

# Triton's kernels run in its interpreter where there is no GPU. It reads this when it is imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# One thread: results do not depend on the machine's cores, and parallel test runs do not fight for them.
torch.set_num_threads(1)
