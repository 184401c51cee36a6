"""The majority task: a one-layer transformer says which class is most frequent (Brody et al. 2023, section 3).

sampling, data      how sequences are drawn, written and read
model               the transformer on class counts, and its loss
parameters          what the loss is a function of: names, shapes and order
kernel              the loss and its gradient, compiled for a CPU
gradients           the choice between the kernel and autograd, by the device
evaluation          what is measured of a model
train               training runs and their files
"""
