"""The README's Python runs, and what it links to is there."""

import re
from pathlib import Path

import pytest

from made_up import private_rows, write_csv

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]

PRINTED = "epsilon=1, samples=100"
SMALLER = "epsilon=1, samples=3, rounds=1, scales=(0.3,), words=20"  # what is printed takes an hour


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert PRINTED in code
    monkeypatch.chdir(tmp_path)
    write_csv(Path("reviews.csv"), private_rows())
    exec(compile(code.replace(PRINTED, SMALLER), "README.md", "exec"), {})  # noqa: S102  (it is ours)
    assert "differentially private" in capsys.readouterr().out


def test_it_is_short() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", path.read_text()) if not t.startswith("http")]
    assert [target for target in targets if not (path.parent / target).exists()] == []
