"""The README's Python runs, and what it links to is there."""

import re
from pathlib import Path

import pytest

from made_up import private_rows, write_csv

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]

# Fewer and shorter texts than printed: what is printed takes an hour.
SMALLER = {
    "epsilon=1, samples=100": "epsilon=1, samples=3, rounds=1, scales=(0.3,), words=20",
    "rounds=6, samples=100, scales=(0.2, 0.5, 0.8), copies=2": "rounds=1, samples=3, scales=(0.3,), copies=1",
}


@pytest.mark.parametrize("place", [0, 1], ids=["one call", "parts"])
def test_the_python_runs(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[place]
    (printed,) = [text for text in SMALLER if text in code]
    monkeypatch.chdir(tmp_path)
    write_csv(Path("reviews.csv"), private_rows())
    exec(compile(code.replace(printed, SMALLER[printed]), "README.md", "exec"), {})  # noqa: S102  (it is ours)
    assert "differentially private" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", path.read_text()) if not t.startswith("http")]
    assert [target for target in targets if not (path.parent / target).exists()] == []
