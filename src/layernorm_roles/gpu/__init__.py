"""The device on which models train, and the check that a GPU computes what the CPU computes.

Device, precision and determinism are decided here; of other code only `language_model` has numbers for each device.
"""
