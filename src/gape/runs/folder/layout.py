"""The layout of a run folder. No other module knows it.

    run/
    ├── release/                    may be published once the run is complete
    │   ├── synthetic.parquet       S(T), in the columns that its modality publishes
    │   ├── report.html             the report, if one was written
    │   ├── privacy.json            the privacy statement, as data
    │   └── PRIVACY.txt             and in words
    └── internal/                   mode 0700
        ├── settings.json           the modality, the plan, the parts, the ledger, the versions that made the run
        ├── settings.toml           all settings, sealed by the user; no secrets, no consent
        ├── schema.toml             the schema as it was when the run began, if there is one
        ├── answers.sqlite          the answers of the language model, stored before they are used
        ├── answers-batches.json    batches of requests that a service works on
        ├── embedded.json           what an embedding service was sent: candidates' tokens, how often private texts
        ├── ledger.sqlite           the ledger of data in memory; that of a file is beside the file
        ├── evaluation.json         the last evaluation; not private
        ├── report.html             a report that is not for publication
        ├── lock
        └── rounds/
            ├── 000/
            │   ├── answers-1.parquet       the noisy answers to the first release of a survey, if there is one
            │   └── synthetic.parquet       S(0)
            └── 001/
                ├── candidates.parquet      V(1), with parents and scales
                ├── votes.parquet           the noisy votes of V(1)
                ├── selection.json          diagnostics of the selection rule
                ├── synthetic.parquet       S(1), with the candidate each came from; last, so it marks the round
                └── rewritten.parquet       in the last round: texts that the last pass rewrote, with their index

Each file is written atomically, in this order, so after a crash the folder contains a prefix of the run. Nothing in it
is private beyond the noisy votes, which are paid for: no exact count, no private record.
"""

from dataclasses import dataclass
from pathlib import Path

_REPORT = "report.html"


@dataclass(frozen=True)
class RoundFiles:
    """The files of one round."""

    path: Path

    def answers(self, number: int) -> Path:
        """The noisy answers to a release of the survey, from 1 on."""
        return self.path / f"answers-{number}.parquet"

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
        """Diagnostics of the selection rule."""
        return self.path / "selection.json"

    @property
    def synthetic(self) -> Path:
        """S(t); it exists once the round is complete."""
        return self.path / "synthetic.parquet"

    @property
    def rewritten(self) -> Path:
        """Texts that the last pass rewrote."""
        return self.path / "rewritten.parquet"


@dataclass(frozen=True)
class Layout:
    """The paths in the folder of a run, whether they exist or not."""

    path: Path

    @property
    def release(self) -> Path:
        """The folder that may be published."""
        return self.path / "release"

    @property
    def internal(self) -> Path:
        """The folder that may not."""
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
    def embedded(self) -> Path:
        """What an embedding service was sent."""
        return self.internal / "embedded.json"

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
        """The file that a working process locks."""
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
        """Count the batches of candidates written: the start, and one per round."""
        return int(self.round(0).synthetic.exists()) + len(list(self.rounds.glob("[0-9]*/candidates.parquet")))

    def answered(self) -> list[int]:
        """List the releases of the survey whose noisy answers are stored, from 1 on."""
        files = self.round(0).path.glob("answers-[0-9]*.parquet")
        return sorted(int(file.stem.removeprefix("answers-")) for file in files)

    def voted(self) -> list[int]:
        """List the rounds whose noisy votes are stored, in order."""
        return sorted(int(file.parent.name) for file in self.rounds.glob("[0-9]*/votes.parquet"))

    @property
    def is_run(self) -> bool:
        """Whether a run has begun here."""
        return self.begun.exists()
