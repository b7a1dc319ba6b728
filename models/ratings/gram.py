"""The Gram matrix of a tile of ratings: half the work of a general product, and sums in one fixed order.

The inner loop keeps a block of 8 × 8 sums in vector registers. LLVM does not find that form in a loop over an array, so
it is written here in LLVM's own terms, which every processor that numba knows is compiled from.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from predilect.models.compiled import kernel

BLOCK = 8
"""Rows and columns of a block: its eight sums of eight are as many as two multiply-add units need to be kept busy."""


@kernel
def gram_matrix(tile: NDArray[Any], n: int, gram: NDArray[Any]) -> None:
    """Set `gram` to XᵀX, X the first `n` rows of `tile`.

    tile: (rows, W) and gram: (W, W), C-contiguous, of one dtype, W a multiple of 8.
    """
    wide = tile.shape[1]
    for row in range(0, wide, BLOCK):
        for column in range(row, wide, BLOCK):
            _block(tile, n, row, column, gram)
    for row in range(BLOCK, wide):
        for column in range(row - row % BLOCK):
            gram[row, column] = gram[column, row]


@intrinsic  # type: ignore[untyped-decorator]
def _block(typing_context: Any, tile: Any, n: Any, row: Any, column: Any, gram: Any) -> tuple[Any, Callable[..., Any]]:
    """gram[row : row + 8, column : column + 8] = Σ_j tile[j, row : …]ᵀ tile[j, column : …]."""
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, count, first_row, first_column, target = arguments
        tile_type, _, _, _, gram_type = signature.args
        source = context.make_array(tile_type)(context, builder, array)
        goal = context.make_array(gram_type)(context, builder, target)
        wide = cgutils.unpack_tuple(builder, source.shape, 2)[1]
        number = context.get_data_type(tile_type.dtype)
        vector, index = ir.VectorType(number, BLOCK), wide.type
        bytes_each = context.get_abi_sizeof(number)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)
        zero = ir.Constant(vector, [0.0] * BLOCK)
        fused = ("contract",)

        def vector_at(data: Any, offset: Any) -> Any:
            return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())

        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(BLOCK)]
        for total in sums:
            builder.store(zero, total)
        with cgutils.for_range(builder, count, intp=index) as loop:
            start = builder.mul(loop.index, wide)
            right = builder.load(vector_at(source.data, builder.add(start, first_column)), align=bytes_each)
            left = builder.add(start, first_row)
            for place, total in enumerate(sums):
                scalar = builder.load(builder.gep(source.data, [builder.add(left, ir.Constant(index, place))]))
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
                spread = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), lanes)
                product = builder.fmul(spread, right, flags=fused)
                builder.store(builder.fadd(builder.load(total), product, flags=fused), total)
        for place, total in enumerate(sums):
            offset = builder.add(builder.mul(builder.add(first_row, ir.Constant(index, place)), wide), first_column)
            builder.store(builder.load(total), vector_at(goal.data, offset), align=bytes_each)
        return context.get_dummy_value()

    return types.void(tile, types.intp, types.intp, types.intp, gram), generate
