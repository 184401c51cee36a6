"""Choice of the training device, CPU or GPU, and checks that a GPU computes what the CPU computes.

Device, precision and determinism are decided here; of other code only the kernels of `language_model` look at devices.
"""
