"""Functions of arrays; imports nothing above it.

Read in this order: arrays, special, linalg, quadrature, averages, softmax_averages, status, newton, iterative; then
sampling, weighted_draws, missing, differences, transforms, fixed_point as needed. The sizes and costs that several of
them share are in settings.
"""
