"""Samples as an Arrow column: texts or vectors, with labels or without."""

import numpy as np
import pyarrow as pa

from gape.core.errors import RunError
from gape.core.types import Samples, as_samples
from gape.generators.labels import labelled


def samples_to_arrow(samples: Samples) -> pa.Array:
    """Convert texts, (m,), vectors, (m, d), or either with labels, (m,) with fields, to one column."""
    if samples.dtype.names:
        fields = [samples_to_arrow(samples[name]) for name in samples.dtype.names]
        return pa.StructArray.from_arrays(fields, names=samples.dtype.names)
    if samples.ndim == 2:
        flat = pa.array(np.ascontiguousarray(samples, dtype=np.float32).ravel())
        return pa.FixedSizeListArray.from_arrays(flat, samples.shape[1])
    return pa.array(samples.tolist(), type=pa.string())


def samples_from_arrow(column: pa.ChunkedArray) -> Samples:
    """Restore samples from `samples_to_arrow`; vectors must be finite. Raise RunError for anything else."""
    array = column.combine_chunks()
    kind = array.type
    if pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type) and kind.list_size:
        flat = array.flatten()
        if len(flat) == len(array) * kind.list_size and not flat.null_count and np.isfinite(flat).all():
            vectors: Samples = flat.to_numpy(zero_copy_only=False).reshape(-1, kind.list_size)
            return vectors.copy()
    elif pa.types.is_struct(kind) and not array.null_count:
        names = [kind.field(i).name for i in range(kind.num_fields)]
        if sorted(names) == ["label", "text"] and pa.types.is_string(kind.field("label").type):
            labels, texts = (samples_from_arrow(pa.chunked_array([array.field(name)])) for name in ("label", "text"))
            if not texts.dtype.names:
                return labelled(labels, texts)
    elif pa.types.is_string(kind) and not array.null_count:
        return as_samples(array.to_pylist())
    raise RunError(f"a column of type {str(kind)[:60]} does not hold texts or finite vectors; restore it from a copy")
