"""The largest score in each group of candidates, in Triton: the float16 product never leaves the matrix units."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from gape.voting.tops import DEPTH, GROUP, ROWS

_BAND = 16  # tiles of rows that pass over the candidates together, so that their data stays in the cache


@dataclass(frozen=True)
class Shape:
    """Tiling parameters: rows and depth of a tile, warps, and pipeline stages."""

    rows: int
    depth: int
    warps: int
    stages: int
    flowing: bool  # use Hopper's tensor memory accelerator, which copies ahead across tiles


# The first shape that runs on a device is used. The first four need Hopper's shared memory, the next that of an A100.
SHAPES = (
    Shape(128, 64, 8, 3, flowing=True),  # on an H200 742 TFLOP/s, with four stages 696
    Shape(128, 64, 8, 4, flowing=True),
    Shape(128, 64, 8, 4, flowing=False),
    Shape(128, 64, 8, 3, flowing=False),
    Shape(128, 32, 8, 3, flowing=False),
    Shape(64, 32, 4, 2, flowing=False),
)


def fitting(device: str) -> Shape | None:
    """Return the first shape that compiles and runs on the device, or None."""
    flows = torch.cuda.get_device_capability(device) >= (9, 0)
    rounded, candidates = (torch.zeros(rows, DEPTH, dtype=torch.float16, device=device) for rows in (ROWS, GROUP))
    inverse, group_inverse, lift, out = (torch.zeros(size, device=device) for size in (ROWS, 1, GROUP, (1, ROWS)))
    for shape in SHAPES:
        if shape.flowing and not flows:
            continue
        try:
            tops(rounded, inverse, candidates, group_inverse, lift, out, shape)
            torch.cuda.synchronize(device)
        except Exception:  # noqa: BLE001, S112  (no compiler, too little shared memory, too old: torch is the fallback)
            continue
        return shape
    return None


def tops(
    rounded: Any, inverse: Any, candidates: Any, group_inverse: Any, lift: Any, out: Any, shape: Shape = SHAPES[0]
) -> None:
    """Fill `out`, (groups, r), with the largest lift + product of each group, for each row.

    rounded: (r, k) and candidates: (groups * GROUP, k), both float16 and contiguous, r a multiple of ROWS and k of
    DEPTH; inverse: (r,) and group_inverse: (groups,), the inverses of their scales; lift: (groups * GROUP,), all
    float32.
    """
    (r, k), groups = rounded.shape, len(group_inverse)
    tiles = r // shape.rows
    rest = (inverse, group_inverse, lift, out, r, k, tiles, groups)
    sizes = {"rows": shape.rows, "size": GROUP, "depth": shape.depth, "band": _BAND}
    options = {"num_warps": shape.warps, "num_stages": shape.stages}
    if not shape.flowing:
        _by_tile[(tiles * groups,)](rounded, candidates, *rest, **sizes, **options)
        return
    from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: PLC0415  (newer than the rest)

    left, right = (
        TensorDescriptor.from_tensor(tensor, [rows, shape.depth])
        for tensor, rows in ((rounded, shape.rows), (candidates, GROUP))
    )
    # One program per multiprocessor; Triton's interpreter has none.
    programs = torch.cuda.get_device_properties(rounded.device).multi_processor_count if rounded.is_cuda else 2
    _flowing[(programs,)](left, right, *rest, **sizes, **options)


@triton.jit  # type: ignore[untyped-decorator]
def _by_tile(  # type: ignore[no-untyped-def]
    rounded,
    candidates,
    inverse,
    group_inverse,
    lift,
    out,
    r,
    k,
    tiles,
    groups,
    rows: tl.constexpr,
    size: tl.constexpr,
    depth: tl.constexpr,
    band: tl.constexpr,
):
    """Run one program per tile of rows and group of candidates."""
    tile, group = _position(tl.program_id(0), tiles, groups, band)
    # Offsets may exceed 32 bits: only offsets within a tile use 32.
    along = tl.arange(0, depth)
    left = rounded + tile.to(tl.int64) * rows * k + tl.arange(0, rows)[:, None] * k + along[None, :]
    right = candidates + group.to(tl.int64) * size * k + tl.arange(0, size)[None, :] * k + along[:, None]
    products = tl.zeros((rows, size), tl.float32)
    for _ in range(0, k, depth):
        products = tl.dot(tl.load(left), tl.load(right), products)
        left += depth
        right += depth
    _finish(products, inverse, group_inverse, lift, out, r, tile, group, rows, size)


@triton.jit  # type: ignore[untyped-decorator]
def _flowing(  # type: ignore[no-untyped-def]
    rounded,
    candidates,
    inverse,
    group_inverse,
    lift,
    out,
    r,
    k,
    tiles,
    groups,
    rows: tl.constexpr,
    size: tl.constexpr,
    depth: tl.constexpr,
    band: tl.constexpr,
):
    """Run one program per multiprocessor. Each takes tiles and groups in turn and loads the next while it finishes one.

    rounded and candidates are tensor descriptors.
    """
    for number in tl.range(tl.program_id(0), tiles * groups, tl.num_programs(0), flatten=True):
        tile, group = _position(number, tiles, groups, band)
        products = tl.zeros((rows, size), tl.float32)
        for along in range(0, k, depth):
            right = candidates.load([group * size, along])
            products = tl.dot(rounded.load([tile * rows, along]), right.T, products)
        _finish(products, inverse, group_inverse, lift, out, r, tile, group, rows, size)


@triton.jit  # type: ignore[untyped-decorator]
def _position(number, tiles, groups, band: tl.constexpr):  # type: ignore[no-untyped-def]
    """Number the pairs of tile and group so that pairs computed together share few tiles and few groups.

    Neighbours have the same group and take the tiles of a band in turn.
    """
    first = number // (band * groups) * band
    height = tl.minimum(tiles - first, band)
    within = number % (band * groups)
    return first + within % height, within // height


@triton.jit  # type: ignore[untyped-decorator]
def _finish(  # type: ignore[no-untyped-def]
    products, inverse, group_inverse, lift, out, r, tile, group, rows: tl.constexpr, size: tl.constexpr
):
    """Turn products into scores and store the largest of each row."""
    of = tile * rows + tl.arange(0, rows)
    scale = tl.load(inverse + of) * tl.load(group_inverse + group)
    scores = products * scale[:, None] + tl.load(lift + group * size + tl.arange(0, size))[None, :]
    tl.store(out + group.to(tl.int64) * r + of, tl.max(scores, 1))
