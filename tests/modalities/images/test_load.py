"""Private images from every source, and what is refused, without a name or a pixel in any message."""

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from gape.core.errors import InputError
from gape.embedders.images.png import Shape, stack
from gape.modalities import Columns, Records, load_images
from modalities.images.pictures import CANARY, as_file, picture, write_folder, write_idx

SHAPE = Shape(10, 12, 3)


def pixels_of(records: Records) -> Any:
    return stack(records.content)


def one(content: bytes, shape: Shape = SHAPE) -> Any:
    (image,) = pixels_of(load_images([{"image": content}], shape))
    return image


def refusal(source: Any, columns: Columns | None = None, shape: Shape = SHAPE) -> str:
    with pytest.raises(InputError) as caught:
        load_images(source, shape, columns)
    message = str(caught.value)
    assert CANARY not in message
    assert "\n" not in message
    assert len(message) < 300
    return message


class TestSources:
    def test_a_folder_of_images_by_name(self, tmp_path: Path) -> None:
        records = load_images(write_folder(tmp_path), SHAPE)
        assert len(records) == 6
        assert records.labels is None
        found = pixels_of(records)
        for index in range(0, 6, 2):
            np.testing.assert_array_equal(found[index], picture(index))
        for index in range(1, 6, 2):
            assert np.abs(found[index].astype(int) - picture(index)).mean() < 15  # JPEG

    def test_class_folders_are_labels_if_asked_for(self, tmp_path: Path) -> None:
        write_folder(tmp_path, classes=("cat", "dog"))
        records = load_images(tmp_path, SHAPE, Columns(label="label"))
        assert records.labels is not None
        assert sorted(records.labels.tolist()) == ["cat"] * 3 + ["dog"] * 3
        assert load_images(tmp_path, SHAPE).labels is None
        (tmp_path / "beside.png").write_bytes(as_file(picture()))
        assert "one folder of images for each label" in refusal(tmp_path, Columns(label="label"))

    @pytest.mark.parametrize("form", ["csv", "jsonl"])
    def test_a_table_beside_the_files_names_labels_and_users(self, tmp_path: Path, form: str) -> None:
        write_folder(tmp_path, 3)
        names = sorted(path.name for path in tmp_path.iterdir())
        rows = [{"file_name": name, "kind": "k1", "who": f" User {i % 2}"} for i, name in enumerate(names)]
        table = tmp_path / f"metadata.{form}"
        if form == "csv":
            table.write_text("file_name,kind,who\n" + "".join(",".join(row.values()) + "\n" for row in rows))
        else:
            table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        records = load_images(tmp_path, SHAPE, Columns(label="kind", user="who"))
        assert records.labels is not None
        assert records.users is not None
        assert records.labels.tolist() == ["k1"] * 3
        assert records.users.tolist() == ["user 0", "user 1", "user 0"]
        (tmp_path.parent / f"{CANARY}.png").write_bytes(as_file(picture()))
        outside = f"../{CANARY}.png"
        table.write_text(f"file_name\n{outside}\n" if form == "csv" else json.dumps({"file_name": outside}))
        assert "names a file that is not in the folder" in refusal(tmp_path)

    @pytest.mark.parametrize("packed", [False, True])
    def test_idx_files(self, tmp_path: Path, *, packed: bool) -> None:
        images = np.random.default_rng(0).integers(0, 256, (5, 12, 10), dtype=np.uint8)
        path = write_idx(tmp_path / "mnist", images, range(5), packed=packed)
        for source in (path, path.parent):
            records = load_images(source, Shape(10, 12, 1), Columns(label="label"))
            np.testing.assert_array_equal(pixels_of(records)[..., 0], images)
            assert records.labels is not None
            assert records.labels.tolist() == list("01234")
        write_idx(tmp_path / "mnist", images, range(5), "test")
        assert "has 2 files of images" in refusal(path.parent)

    def test_a_column_of_images(self, tmp_path: Path) -> None:
        rows = [{"image": {"bytes": as_file(picture(i)), "path": f"{CANARY}.png"}, "label": i % 2} for i in range(4)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data.parquet")
        for source in (tmp_path / "data.parquet", tmp_path, pa.Table.from_pylist(rows), rows):
            records = load_images(source, SHAPE, Columns(label="label"))
            np.testing.assert_array_equal(pixels_of(records), [picture(i) for i in range(4)])
            assert records.labels is not None
            assert records.labels.tolist() == ["0", "1", "0", "1"]
        assert len(load_images(rows, SHAPE, Columns("image"))) == 4
        assert "no clear column of images" in refusal(rows, Columns("label2"))
        assert "no column 'kind'" in refusal(rows, Columns(label="kind"))
        rows[1]["image"] = {"bytes": None, "path": "/etc/passwd"}
        assert "item 2 of the list names a file instead of holding an image" in refusal(rows)

    def test_pixels_in_memory(self) -> None:
        images = np.stack([picture(i) for i in range(3)])
        np.testing.assert_array_equal(pixels_of(load_images(images, SHAPE)), images)
        listed: list[dict[str, Any]] = [{"image": Image.fromarray(image)} for image in images]
        np.testing.assert_array_equal(pixels_of(load_images(listed, SHAPE, Columns("image"))), images)
        assert "must hold bytes" in refusal(images.astype(np.float32))

    def test_the_same_images_are_one_dataset_however_they_are_read(self, tmp_path: Path) -> None:
        images = np.random.default_rng(0).integers(0, 256, (3, 12, 10), dtype=np.uint8)
        (tmp_path / "files").mkdir()
        for index, image in enumerate(images):
            (tmp_path / "files" / f"{index}.png").write_bytes(as_file(image))
        sources = (write_idx(tmp_path / "idx", images, range(3)), tmp_path / "files", images)
        known = {load_images(source, shape).contents for source in sources for shape in (SHAPE, Shape())}
        assert len(known) == 1


class TestDecoding:
    def test_another_size_is_cut_to_the_proportion_and_resized(self) -> None:
        wide = np.zeros((20, 60, 3), np.uint8)
        wide[:, 20:40] = 200  # the middle is kept
        assert (one(as_file(wide), Shape(10, 10, 1)) == 200).all()

    def test_rotation_by_exif(self) -> None:
        exif = Image.Exif()
        exif[274] = 6  # to be turned by 90 degrees
        turned = np.rot90(picture(), 1)
        content = as_file(np.ascontiguousarray(turned), "PNG", exif=exif)
        np.testing.assert_array_equal(one(content), picture())

    def test_sixteen_bits_palettes_transparency_and_cmyk(self) -> None:
        deep = (picture(channels=1)[:, :, 0].astype(np.uint16)) * 257
        np.testing.assert_array_equal(one(as_file(deep), Shape(10, 12, 1))[..., 0], picture(channels=1)[:, :, 0])
        flat = np.full((12, 10, 3), (255, 0, 0), np.uint8)
        np.testing.assert_array_equal(one(as_file(Image.fromarray(flat).convert("P"))), flat)
        clear = Image.new("RGBA", (10, 12), (9, 9, 9, 0))
        assert (one(as_file(clear)) == 255).all()
        assert one(as_file(Image.fromarray(flat).convert("CMYK"), "JPEG")).shape == (12, 10, 3)
        assert one(as_file(Image.new("1", (10, 12), 1))).min() == 255

    def test_bombs(self) -> None:
        huge = io.BytesIO()
        Image.new("L", (2**13, 2**12 + 1)).save(huge, "PNG")
        assert "more than 33,554,432 pixels" in refusal([{"image": huge.getvalue()}])
        small = bytearray(as_file(picture()))
        small[16:24] = struct.pack(">II", 2**31 - 1, 2**31 - 1)
        small[29:33] = struct.pack(">I", zlib.crc32(bytes(small[12:29])))
        assert "more than 33,554,432 pixels" in refusal([{"image": bytes(small)}])
        assert "has more than 64 MB" in refusal([{"image": b"\0" * (2**26 + 1)}])

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"GIF89a",
            CANARY.encode(),
            as_file(picture())[:60],
            as_file(picture(), "JPEG")[:200],
            as_file(picture(), "GIF"),
        ],
        ids=["empty", "header", "text", "cut PNG", "cut JPEG", "GIF"],
    )
    def test_what_cannot_be_read(self, content: bytes) -> None:
        assert "item 1 of the list is not a PNG or JPEG image that can be read" in refusal([{"image": content}])


class TestRefusals:
    def test_links(self, tmp_path: Path) -> None:
        write_folder(tmp_path / "data", classes=("a",))
        (tmp_path / "data" / "a" / f"{CANARY}.png").symlink_to(tmp_path / "data" / "a" / f"{CANARY}-0.png")
        assert "is a symbolic link" in refusal(tmp_path / "data")
        (tmp_path / "linked").mkdir()
        (tmp_path / "linked" / CANARY).symlink_to(tmp_path / "data" / "a")
        assert "is a symbolic link" in refusal(tmp_path / "linked")

    def test_folders_without_images_and_columns_that_are_not_there(self, tmp_path: Path) -> None:
        assert "has no .png, .jpg or .jpeg files" in refusal(tmp_path)
        write_folder(tmp_path)
        assert "one folder of images for each label" in refusal(tmp_path, Columns(label="x"))
        assert "has no columns, got 'who'" in refusal(tmp_path, Columns(user="who"))
        assert "without a column 'image'" in refusal(tmp_path, Columns("image"))
        assert "does not exist" in refusal(tmp_path / "none")
        assert "the data is a single image; name the folder of the images" in refusal(next(tmp_path.rglob("*.png")))

    def test_images_of_kinds_that_are_not_read_are_not_left_out_in_silence(self, tmp_path: Path) -> None:
        write_folder(tmp_path)
        (tmp_path / f"{CANARY}.txt").write_text("no image")
        count = len(load_images(tmp_path))
        (tmp_path / f"{CANARY}.WebP").write_bytes(b"")
        assert "has .webp files, which are not read; convert them to .png, or remove them" in refusal(tmp_path)
        (tmp_path / f"{CANARY}.WebP").unlink()
        assert len(load_images(tmp_path)) == count
        assert "has no columns, got 'label'" in refusal(np.zeros((1, 2, 2), np.uint8), Columns(label="label"))

    def test_idx_files_that_are_cut_or_of_another_kind(self, tmp_path: Path) -> None:
        path = write_idx(tmp_path, np.zeros((5, 4, 4), np.uint8), range(4))
        labelled = Columns(label="label")
        assert "has 5 images, and its labels are 4" in refusal(path, labelled)
        path.write_bytes(path.read_bytes()[:-3])
        assert "ends after 4 of 5 images" in refusal(path)
        path.write_bytes(path.read_bytes()[:6])
        assert "too short" in refusal(path)
        path.write_bytes(b"\0\0\x0d\x03" + b"\0" * 12)
        assert "is not an idx file of bytes" in refusal(path)
        path.write_bytes(struct.pack(">HBB3I", 0, 8, 3, 1, 2**31, 2**31))
        assert "has images of" in refusal(path)
        path.with_name("train-labels-idx1-ubyte").unlink()
        assert "has no file of labels beside it" in refusal(path, labelled)
