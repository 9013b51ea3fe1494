"""The largest score in every group of candidates, in Triton: the product of halves never leaves the matrix units."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from gape.voting.tops import DEPTH, GROUP, ROWS

_BAND = 16  # tiles of rows that go over the candidates together: they and what they share stay in the cache


@dataclass(frozen=True)
class Shape:
    """How the work is cut: rows and columns of a tile, warps, and the depth of the pipeline that feeds the units."""

    rows: int
    depth: int
    warps: int
    stages: int
    flowing: bool  # tensors are copied by Hopper's own engine, across the borders of tiles


# The first that runs on a device is taken. The first four need the shared memory of Hopper, the next that of an A100.
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
    halves, candidates = (torch.zeros(rows, DEPTH, dtype=torch.float16, device=device) for rows in (ROWS, GROUP))
    inverse, group_inverse, lift, out = (torch.zeros(size, device=device) for size in (ROWS, 1, GROUP, (1, ROWS)))
    for shape in SHAPES:
        if shape.flowing and not flows:
            continue
        try:
            tops(halves, inverse, candidates, group_inverse, lift, out, shape)
            torch.cuda.synchronize(device)
        except Exception:  # noqa: BLE001, S112  (no compiler, too little shared memory, too old: torch can do it all)
            continue
        return shape
    return None


def tops(
    halves: Any, inverse: Any, candidates: Any, group_inverse: Any, lift: Any, out: Any, shape: Shape = SHAPES[0]
) -> None:
    """Fill `out`, (groups, r), with the largest lift + product of each group, for each row.

    halves: (r, k) and candidates: (groups * GROUP, k), both float16 and contiguous, r a multiple of ROWS and k of
    DEPTH; inverse: (r,) and group_inverse: (groups,), what undoes their scales; lift: (groups * GROUP,), all float32.
    """
    (r, k), groups = halves.shape, len(group_inverse)
    tiles = r // shape.rows
    rest = (inverse, group_inverse, lift, out, r, k, tiles, groups)
    sizes = {"rows": shape.rows, "size": GROUP, "depth": shape.depth, "band": _BAND}
    options = {"num_warps": shape.warps, "num_stages": shape.stages}
    if not shape.flowing:
        _by_tile[(tiles * groups,)](halves, candidates, *rest, **sizes, **options)
        return
    from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: PLC0415  (newer than the rest)

    left, right = (
        TensorDescriptor.from_tensor(tensor, [rows, shape.depth])
        for tensor, rows in ((halves, shape.rows), (candidates, GROUP))
    )
    # One program for each multiprocessor; Triton's interpreter has none.
    programs = torch.cuda.get_device_properties(halves.device).multi_processor_count if halves.is_cuda else 2
    _flowing[(programs,)](left, right, *rest, **sizes, **options)


@triton.jit  # type: ignore[untyped-decorator]
def _by_tile(  # type: ignore[no-untyped-def]
    halves,
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
    """A program for each tile of rows and group of candidates."""
    tile, group = _place(tl.program_id(0), tiles, groups, band)
    # There may be more numbers than 32 bits count: only what is inside a tile is counted with 32.
    along = tl.arange(0, depth)
    left = halves + tile.to(tl.int64) * rows * k + tl.arange(0, rows)[:, None] * k + along[None, :]
    right = candidates + group.to(tl.int64) * size * k + tl.arange(0, size)[None, :] * k + along[:, None]
    products = tl.zeros((rows, size), tl.float32)
    for _ in range(0, k, depth):
        products = tl.dot(tl.load(left), tl.load(right), products)
        left += depth
        right += depth
    _finish(products, inverse, group_inverse, lift, out, r, tile, group, rows, size)


@triton.jit  # type: ignore[untyped-decorator]
def _flowing(  # type: ignore[no-untyped-def]
    halves,
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
    """A program for each multiprocessor, which takes tiles and groups in turn and loads the next while it finishes one.

    halves and candidates are descriptors of tensors.
    """
    for number in tl.range(tl.program_id(0), tiles * groups, tl.num_programs(0), flatten=True):
        tile, group = _place(number, tiles, groups, band)
        products = tl.zeros((rows, size), tl.float32)
        for along in range(0, k, depth):
            right = candidates.load([group * size, along])
            products = tl.dot(halves.load([tile * rows, along]), right.T, products)
        _finish(products, inverse, group_inverse, lift, out, r, tile, group, rows, size)


@triton.jit  # type: ignore[untyped-decorator]
def _place(number, tiles, groups, band: tl.constexpr):  # type: ignore[no-untyped-def]
    """Number the pairs of tile and group so that pairs at the same time share few tiles and few groups.

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
    """Make scores of products and write each row's largest."""
    of = tile * rows + tl.arange(0, rows)
    scale = tl.load(inverse + of) * tl.load(group_inverse + group)
    scores = products * scale[:, None] + tl.load(lift + group * size + tl.arange(0, size))[None, :]
    tl.store(out + group.to(tl.int64) * r + of, tl.max(scores, 1))
