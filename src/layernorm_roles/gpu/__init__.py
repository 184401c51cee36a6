"""GPUs: which device trains, and whether a GPU computes what the CPU computes.

Training code gets a `Device` (device.py) and asks it nothing about GPUs. This is the one place where device, precision
and determinism are decided, but for the kernels of `language_model`, which go by the device of their tensors.
"""
