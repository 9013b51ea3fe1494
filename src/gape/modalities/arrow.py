"""Samples as an Arrow column: texts, texts with labels, or vectors."""

import numpy as np
import pyarrow as pa

from gape.core.errors import RunError
from gape.core.types import Samples, as_samples


def samples_to_arrow(samples: Samples) -> pa.Array:
    """Convert texts, (m,), texts with labels, (m,) with fields, or vectors, (m, d), to one column."""
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
        if sorted(names) == ["label", "text"] and all(pa.types.is_string(kind.field(name).type) for name in names):
            samples = np.empty(len(array), dtype=[(name, object) for name in names])
            for name in names:
                samples[name] = samples_from_arrow(pa.chunked_array([array.field(name)]))
            return samples
    elif pa.types.is_string(kind) and not array.null_count:
        return as_samples(array.to_pylist())
    raise RunError(f"a column of type {str(kind)[:60]} does not hold texts or finite vectors; restore it from a copy")
