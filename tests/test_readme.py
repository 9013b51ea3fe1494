"""The README's Python runs as printed, and what it links to is there."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_ten_lines_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    np.save("embeddings.npy", np.random.default_rng(0).uniform(-1, 1, size=(3000, 8)).astype(np.float32))
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102  (it is ours)
    assert "(1, 1e-06)-differentially private" in capsys.readouterr().out
    assert (tmp_path / "my-run" / "release" / "synthetic.parquet").exists()


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/guarantees.md", "docs/notation.md", "docs/selection.md"]
)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", path.read_text()) if not t.startswith("http")]
    assert [target for target in targets if not (path.parent / target).exists()] == []
