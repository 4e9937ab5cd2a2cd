"""Covariance functions of Gaussian processes: the kernels, how to combine them, and beliefs about their numbers."""

from credibly.model.kernels import (
    RBF,
    Constant,
    Kernel,
    Linear,
    LogNormal,
    Matern,
    Number,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    Sum,
    White,
)

__all__ = [
    "RBF",
    "Constant",
    "Kernel",
    "Linear",
    "LogNormal",
    "Matern",
    "Number",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Sum",
    "White",
]
