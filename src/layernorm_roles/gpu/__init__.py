"""Choice of the training device, CPU or GPU, and a check that a GPU computes what the CPU computes.

Training code is given a `Device` (device.py) and need not know which it is. Device, precision and determinism are
decided here alone; only the kernels of `language_model` look at the device of their tensors.
"""
