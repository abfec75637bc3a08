"""The ``timing:`` of an architecture file, from its checked keys to
:class:`costmodel.hardware.timing.Timing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costmodel.errors import InputError
from costmodel.formats.yaml.architecture_document import (
    ArrayTimingKeys,
    CacheTimingKeys,
    LinkKeys,
    ProcessingTimingKeys,
    TimingKeys,
    TransferTimingKeys,
)
from costmodel.hardware.architecture import StorageLevel
from costmodel.hardware.processing_timing import ProcessingTiming, TensorLink
from costmodel.hardware.timing import ArrayTiming, CacheTiming, Timing, TransferTiming


def timing_of(keys: TimingKeys, levels: Sequence[StorageLevel], where: str) -> Timing:
    """The timing of a file called ``where``; InputError at the key that is wrong."""
    builder = _Builder({level.name: level.fanout for level in levels})
    try:
        return builder.timing(keys)
    except InputError as error:
        raise error.at(where, "timing") from None


@dataclass(frozen=True)
class _Builder:
    """Reads widths, which may be the fan-outs of levels."""

    fanouts: Mapping[str, int]

    def timing(self, keys: TimingKeys) -> Timing:
        return Timing(
            array=self._array(keys.array) if keys.array else None,
            load=self._transfer(keys.load, "load") if keys.load else None,
            store=self._transfer(keys.store, "store") if keys.store else None,
            caches=tuple(map(_cache, keys.caches)),
            layouts=tuple((role, tuple(dims)) for role, dims in keys.layouts.items()),
            permitted_layouts=tuple(
                (role, tuple(map(tuple, several))) for role, several in keys.permitted_layouts.items()
            ),
            steps_in_flight=keys.steps_in_flight,
            whole_steps=tuple(keys.whole_steps),
            ahead_cycles=keys.ahead.value,
            issue_cycles=keys.issue.value,
            product_issue_cycles=keys.product_issue.value if keys.product_issue else None,
            product_block=self._points(keys.product_block, "product_block"),
            reloads=tuple(keys.reloads),
            keeps_partial_sums=keys.keeps_partial_sums,
            clear_cycles_per_row=keys.clear_per_row.value,
            whole_strides=keys.whole_strides,
            starts_warm=keys.starts_warm,
            processing=self._processing(keys.processing) if keys.processing else None,
        )

    def _processing(self, keys: ProcessingTimingKeys) -> ProcessingTiming:
        return ProcessingTiming(
            links=tuple(map(self._link, keys.links)),
            accumulate_cycles=keys.accumulate.value,
            exposed_fills=tuple((role, number.value) for role, number in keys.exposed_fills.items()),
        )

    def _link(self, keys: LinkKeys) -> TensorLink:
        if keys.level not in self.fanouts:
            expected = f"a level: {', '.join(self.fanouts)}"
            raise InputError("timing", expected, keys.level, key="processing.links.level")
        return TensorLink(
            keys.level,
            keys.tensor,
            read_bandwidth=keys.read.value if keys.read else None,
            write_bandwidth=keys.write.value if keys.write else None,
        )

    def _array(self, keys: ArrayTimingKeys) -> ArrayTiming:
        # The latency of a systolic array grows with its width, which is an axis of studies: so the file
        # states a constant and a slope, and the sum is taken here, at this design's width.
        points = self._width(keys.pass_points, "array.pass_points")
        last = keys.least_last_pass
        return ArrayTiming(
            block=self._points(keys.block, "array.block"),
            pass_dim=keys.pass_dim,
            pass_points=points,
            least_pass_cycles=keys.least_pass.value,
            pass_latency_cycles=keys.pass_latency.value + points * keys.pass_latency_per_point.value,
            passes_in_flight=keys.passes_in_flight,
            least_last_pass_cycles=self._width(last, "array.least_last_pass") if last else 0.0,
        )

    def _transfer(self, keys: TransferTimingKeys, key: str) -> TransferTiming:
        return TransferTiming(
            request_bytes=keys.request_bytes,
            beat_bytes=keys.beat_bytes,
            buffer_bytes=self._optional(keys.buffer_bytes, f"{key}.buffer_bytes"),
            short_requests_in_proportion=keys.short_requests_in_proportion,
            cycles_per_request=keys.per_request.value,
            cycles_per_row=keys.per_row.value,
            joins_rows=keys.joins_rows,
            row_elements=self._optional(keys.row_elements, f"{key}.row_elements"),
            product_row_elements=self._optional(keys.product_row_elements, f"{key}.product_row_elements"),
        )

    def _points(self, widths: Mapping[str, Sequence[int | str]], key: str) -> tuple[tuple[str, int], ...]:
        """Points by dim, as pairs: the timing is hashed, and dicts cannot be."""
        return tuple((dim, self._width(width, f"{key}.{dim}")) for dim, width in widths.items())

    def _optional(self, width: Sequence[int | str] | None, key: str) -> int | None:
        return None if width is None else self._width(width, key)

    def _width(self, width: Sequence[int | str], key: str) -> int:
        """The smallest of some widths; the name of a level stands for its fan-out."""
        for entry in width:
            if isinstance(entry, str) and entry not in self.fanouts:
                expected = f"a whole number or a level: {', '.join(self.fanouts)}"
                raise InputError("timing", expected, entry, key=key)
        return min(self.fanouts[entry] if isinstance(entry, str) else entry for entry in width)


def _cache(keys: CacheTimingKeys) -> CacheTiming:
    return CacheTiming(
        name=keys.name,
        size_bytes=keys.size_bytes,
        line_bytes=keys.line_bytes,
        ways=keys.ways,
        cycles_per_miss=keys.miss.value,
        lines_per_write_miss=keys.lines_per_write_miss.value,
    )
