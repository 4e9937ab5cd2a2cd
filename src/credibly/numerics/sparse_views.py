"""Parts of sparse tables that share the table's memory.

SciPy copies what a sparse table is made of when that is a view of less than half an array: at every cut, and again at
every transposition. Here the three arrays are put in place as they are.
"""

from scipy.sparse import csc_array, csr_array

from credibly.numerics.linalg import DesignMatrix


def rows_view(X: csr_array, start: int, end: int) -> csr_array:
    """Rows start … end of a table, of which only the places of row ends are new.

    Examples
    --------
    >>> import numpy as np
    >>> X = csr_array(np.diag([1.0, 2.0, 3.0, 4.0, 5.0]))
    >>> part = rows_view(X, 1, 2)
    >>> part.toarray(), np.shares_memory(part.data, X.data)
    (array([[0., 2., 0., 0., 0.]]), True)
    """
    first, last = X.indptr[start], X.indptr[end]
    part = csr_array((end - start, X.shape[1]))
    part.data, part.indices, part.indptr = X.data[first:last], X.indices[first:last], X.indptr[start : end + 1] - first
    return part


def transposed(X: DesignMatrix) -> DesignMatrix | csc_array:
    """The transpose, in the same memory.

    Examples
    --------
    >>> import numpy as np
    >>> X = csr_array(np.arange(6.0).reshape(3, 2))
    >>> turned = transposed(rows_view(X, 0, 1))
    >>> turned.toarray(), np.shares_memory(turned.data, X.data)
    (array([[0.],
           [1.]]), True)
    """
    if not isinstance(X, csr_array):
        return X.T
    turned = csc_array((X.shape[1], X.shape[0]))
    turned.data, turned.indices, turned.indptr = X.data, X.indices, X.indptr
    return turned
