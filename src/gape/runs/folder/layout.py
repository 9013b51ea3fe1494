"""Where everything lies in the folder of a run. No other module spells it out.

    run/
    ├── release/                    may be published once the run is complete
    │   ├── synthetic.parquet       S(T), in the columns that its modality publishes
    │   ├── report.html             the run as a page, if it was asked for
    │   ├── privacy.json            the privacy statement, as data
    │   └── PRIVACY.txt             and in words
    └── internal/                   mode 0700
        ├── settings.json           the modality, the plan, the parts, the ledger, the versions that made the run
        ├── settings.toml           every setting, sealed by the user; no secrets, no consent
        ├── schema.toml             the description of the records, as it was when the run began, if there is one
        ├── answers.sqlite          what the language model answered, stored before it is used
        ├── ledger.sqlite           the ledger of data in memory; that of a file lies beside the file
        ├── evaluation.json         the last evaluation; not private
        ├── report.html             a report that is not for publication
        ├── lock
        └── rounds/
            ├── 000/synthetic.parquet       S(0)
            └── 001/
                ├── candidates.parquet      V(1), with parents and scales
                ├── votes.parquet           the noisy votes of V(1)
                ├── selection.json          what the selection rule says of itself
                ├── synthetic.parquet       S(1), with the candidate each came from; last, so it marks the round
                └── rewritten.parquet       in the last round: what the last pass has rewritten, with its index in S(T)

Every file is written whole or not at all, in this order, so what is there after a crash is a prefix of the run.
Nothing in it is private beyond what the noisy votes already paid for: no exact count, no private record.
"""

from dataclasses import dataclass
from pathlib import Path

_REPORT = "report.html"


@dataclass(frozen=True)
class RoundFiles:
    """The files of one round."""

    path: Path

    @property
    def candidates(self) -> Path:
        """V(t)."""
        return self.path / "candidates.parquet"

    @property
    def votes(self) -> Path:
        """The noisy votes of V(t)."""
        return self.path / "votes.parquet"

    @property
    def selection(self) -> Path:
        """What the selection rule says of itself."""
        return self.path / "selection.json"

    @property
    def synthetic(self) -> Path:
        """S(t); there once the round is complete."""
        return self.path / "synthetic.parquet"

    @property
    def rewritten(self) -> Path:
        """What the last pass has changed."""
        return self.path / "rewritten.parquet"


@dataclass(frozen=True)
class Layout:
    """The paths in the folder of a run, whether they exist or not."""

    path: Path

    @property
    def release(self) -> Path:
        """What may be published."""
        return self.path / "release"

    @property
    def internal(self) -> Path:
        """What may not."""
        return self.path / "internal"

    @property
    def begun(self) -> Path:
        """How the run began."""
        return self.internal / "settings.json"

    @property
    def settings(self) -> Path:
        """Every setting of the run."""
        return self.internal / "settings.toml"

    @property
    def schema(self) -> Path:
        """The description of the records."""
        return self.internal / "schema.toml"

    @property
    def answers(self) -> Path:
        """The answers of the language model."""
        return self.internal / "answers.sqlite"

    @property
    def ledger(self) -> Path:
        """The ledger of data in memory."""
        return self.internal / "ledger.sqlite"

    @property
    def evaluation(self) -> Path:
        """The last evaluation."""
        return self.internal / "evaluation.json"

    @property
    def lock(self) -> Path:
        """The file that a process at work here locks."""
        return self.internal / "lock"

    @property
    def rounds(self) -> Path:
        """All rounds."""
        return self.internal / "rounds"

    @property
    def published(self) -> Path:
        """The synthetic data."""
        return self.release / "synthetic.parquet"

    @property
    def statement(self) -> Path:
        """The privacy statement, as data."""
        return self.release / "privacy.json"

    @property
    def words(self) -> Path:
        """The privacy statement, in words."""
        return self.release / "PRIVACY.txt"

    @property
    def release_report(self) -> Path:
        """The report that may be published."""
        return self.release / _REPORT

    @property
    def internal_report(self) -> Path:
        """The report that may not."""
        return self.internal / _REPORT

    def round(self, turn: int) -> RoundFiles:
        """Return the files of a round; 0 is the start."""
        return RoundFiles(self.rounds / f"{turn:03d}")

    def complete(self) -> list[int]:
        """List the rounds that are complete, in order; 0 is the start."""
        return sorted(int(file.parent.name) for file in self.rounds.glob("[0-9]*/synthetic.parquet"))

    def written(self) -> int:
        """Count how often candidates were written: for the start, and for each round."""
        return int(self.round(0).synthetic.exists()) + len(list(self.rounds.glob("[0-9]*/candidates.parquet")))

    def voted(self) -> list[int]:
        """List the rounds whose noisy votes are there, in order."""
        return sorted(int(file.parent.name) for file in self.rounds.glob("[0-9]*/votes.parquet"))

    @property
    def is_run(self) -> bool:
        """Whether a run has begun here."""
        return self.begun.exists()
