"""The majority task: a one-layer transformer says which class is most frequent (Brody et al. 2023, section 3).

`data` draws the sequences, `model` is the transformer on class counts, `kernel` its fast CPU form, `train` one
run, `vectors` the geometry of its keys and queries.
"""
