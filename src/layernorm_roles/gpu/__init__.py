"""GPUs: whether one can be used here, what training on it needs, and what is done where something is missing.

Training code gets a `Device` (device.py) and asks it nothing about GPUs. This is the one place where device, precision,
determinism and recorded steps are decided, but for the kernels of `language_model`, which go by the device of their
tensors. What has run where stands in the README.
"""
