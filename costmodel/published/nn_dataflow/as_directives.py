"""nn-dataflow's row-stationary schemes as KAPLA's directives, where sizes divide and nothing is folded."""

from __future__ import annotations

from costmodel.errors import InputError
from costmodel.formats.directives.values import (
    LayerScheme,
    LevelScheme,
    Stack,
    TensorTile,
    Update,
)
from costmodel.published.nn_dataflow.blocking import AT_DRAM, AT_GBUF, IN_PE, Blocking
from costmodel.published.nn_dataflow.layers import LOOPS, C, K, LayerShape, N
from costmodel.published.nn_dataflow.row_stationary import Folding, ProcessingPass, fold


def scheme_directives(
    name: str, layer: LayerShape, batch: int, unit: ProcessingPass, blocking: Blocking, array: tuple[int, int]
) -> LayerScheme:
    """The directives of one node: registers of a PE, the buffer, the whole tensors.

    A PE holds one row of a filter and as many inputs, and slides along a row of inputs. Columns of PEs work
    on different output rows, rows of PEs on different filter rows, copies on different channels. Raises
    InputError for folds, and for channels that copies and factors do not divide: these have no exact
    directives.
    """
    folding = fold(layer.window_h, layer.out_h, array)
    _check_exact(layer, batch, unit, blocking, folding)
    sizes = _Sizes(layer, unit.copies)
    inner, buffer = blocking.factors[IN_PE], blocking.inside(AT_DRAM)
    whole = blocking.totals
    return LayerScheme(
        name,
        (
            LevelScheme(
                "REGF",
                sizes.tensors(inner, (1, 1), rows=1, columns=1, filter_rows=1),
                sizes.stacks(inner, folding),
                (
                    Update((("Xo", 1), ("Xi", layer.stride_w))),
                    *sizes.updates(blocking, AT_GBUF, inner),
                ),
            ),
            LevelScheme("GBUF", sizes.whole_maps(buffer), (), sizes.updates(blocking, AT_DRAM, buffer)),
            LevelScheme("DRAM", sizes.whole_maps(whole)),
        ),
    )


def _check_exact(
    layer: LayerShape, batch: int, unit: ProcessingPass, blocking: Blocking, folding: Folding
) -> None:
    if folding.fold_h * folding.fold_w > 1:
        raise InputError("row-stationary scheme", "no folds", (folding.fold_h, folding.fold_w))
    channels = layer.channels_in if layer.has_filters else 1
    covered = blocking.totals[C] * unit.copies[0], blocking.totals[K] * unit.copies[1], blocking.totals[N]
    if covered != (channels, layer.channels_out, batch):
        expected = f"copies and factors that divide {(channels, layer.channels_out, batch)}"
        raise InputError("row-stationary scheme", expected, covered)


class _Sizes:
    """Makes the tensors, stacks and updates of one layer, with sizes in elements.

    Loops count passes, and a pass works on ``copies`` = (input, output) channels. A local layer has a single
    channel dim C, which its inputs and outputs have in common.
    """

    def __init__(self, layer: LayerShape, copies: tuple[int, int]) -> None:
        self.layer, self.copies = layer, copies
        self.dims = ("C", "K" if layer.has_filters else "C", "N")

    def tensors(
        self, counts: tuple[int, ...], copies: tuple[int, int], rows: int, columns: int, filter_rows: int
    ) -> tuple[TensorTile, ...]:
        """The tiles of ``counts`` passes along C, K and N, for ``rows`` x ``columns`` outputs."""
        layer = self.layer
        made, batch = counts[K] * copies[1], ("N", counts[N])
        read = counts[C] * copies[0] if layer.has_filters else made
        in_rows = filter_rows + (rows - 1) * layer.stride_h
        in_columns = layer.window_w + (columns - 1) * layer.stride_w
        filters = TensorTile("FIL", (("C", read), ("K", made), ("R", layer.window_w), ("S", filter_rows)))
        return (
            *[filters] * layer.has_filters,
            TensorTile("IFM", (batch, ("C", read), ("Xi", in_columns), ("Yi", in_rows))),
            TensorTile("OFM", (batch, (self.dims[K], made), ("Xo", columns), ("Yo", rows)), output=True),
        )

    def whole_maps(self, counts: tuple[int, ...]) -> tuple[TensorTile, ...]:
        """The tiles of ``counts`` passes that hold whole feature maps and windows."""
        layer = self.layer
        return self.tensors(counts, self.copies, layer.out_h, layer.out_w, layer.window_h)

    def stacks(self, counts: tuple[int, ...], folding: Folding) -> tuple[Stack, ...]:
        """PEs side by side: columns for output rows, rows for filter rows, copies for channels."""
        layer = self.layer
        window = (("S", 1), ("Yi", 1)) if layer.has_filters else (("Yi", 1),)
        stacks = [
            Stack((("Yo", 1), ("Yi", layer.stride_h)), folding.columns),
            Stack(window, folding.rows),
            Stack((("C", counts[C]),), self.copies[0]),
            Stack(((self.dims[K], counts[K]),), self.copies[1]),
        ]
        return tuple(stack for stack in stacks if stack.replicas > 1)

    def updates(self, blocking: Blocking, block: int, inside: tuple[int, ...]) -> tuple[Update, ...]:
        """The loops of a block that have more than one trip, innermost first."""
        steps = {
            C: inside[C] * self.copies[0],
            K: inside[K] * self.copies[1],
            N: inside[N],
        }
        order = sorted(range(len(LOOPS)), key=lambda loop: blocking.orders[block][loop])
        return tuple(
            Update(((self.dims[loop], steps[loop]),)) for loop in order if blocking.factors[block][loop] > 1
        )
