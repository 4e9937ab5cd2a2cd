"""k(x, z): what is believed about a latent function before the data."""

from credibly.model.kernels.base import Kernel
from credibly.model.kernels.combine import Product, Sum
from credibly.model.kernels.dot_product import Linear, Polynomial
from credibly.model.kernels.hyperparameters import LogNormal, Number
from credibly.model.kernels.periodic import Periodic
from credibly.model.kernels.simple import Constant, White
from credibly.model.kernels.stationary import RBF, Matern, RationalQuadratic

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
