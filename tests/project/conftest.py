import csv
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import made_gguf
from gape.embedders.images.png import as_png
from gape.generators.images.fonts import FontImages
from made_up import private_rows, public_texts

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages speak of, and a finished run."""
    folder = tmp_path_factory.mktemp("docs")
    rows = private_rows(150)
    for name, part in {"reviews.csv": rows[:100], "others.csv": rows[100:]}.items():
        with (folder / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["review", "stars", "customer"])
            writer.writerows([row["review"], 1 + i % 5, row["who"]] for i, row in enumerate(part))
    for name, texts in {"public.csv": public_texts(), "synthetic.csv": public_texts()[::5]}.items():
        (folder / name).write_text("review\n" + "\n".join(texts) + "\n")
    for page, name in {"tables.md": "people.toml", "records.md": "reviews.toml"}.items():
        (schema,) = re.findall(r"^```toml\n(.*?)^```$", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
        (folder / name).write_text(schema)
    people = "".join(
        f"{20 + i % 60},{'<=50K' if i % 3 else '>50K'},{50 + i % 40},2020-{1 + i % 12:02d}-01\n" for i in range(200)
    )
    for label in "01":
        (folder / "digits" / label).mkdir(parents=True)
        for number, image in enumerate(FontImages(characters=label).random(20, np.random.default_rng(0))):
            (folder / "digits" / label / f"{number}.png").write_bytes(as_png(image))
    made_gguf.make(folder / "tiny.gguf")
    (folder / "people.csv").write_text("age,income,weight,visit\n" + people)
    return folder


@pytest.fixture
def here(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
