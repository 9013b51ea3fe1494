import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.runs.presets import PRESETS
from gape.runs.settings import CHOICES, OPERATIONAL, Settings, settings_fields
from gape.runs.settings_file import read_toml


def test_later_layers_override_earlier_ones_and_all_of_them_the_preset() -> None:
    settings = Settings.of({"preset": "augpe", "rounds": 3}, {"rounds": 4, "seed": None})
    assert (settings.selector, settings.samples, settings.rounds, settings.seed) == ("ranking", 2000, 4, 0)


@pytest.mark.parametrize("preset", PRESETS)
def test_they_survive_toml(preset: str) -> None:
    values = {"data": 'a "b"\\c\n\x7fé.csv', "epsilon": float("inf"), "scales": [1, 0.5], "label": "x", "labels": ["a"]}
    settings = Settings.of(values, {"preset": preset, "separation": 2})
    assert Settings.of(tomllib.loads(settings.as_toml())) == settings


def test_a_file_of_settings(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('epsilon = 1\ndomain = "reviews"\n')
    assert Settings.of(read_toml(file)).epsilon == 1.0
    file.write_text("epsilom = 1\n")
    with pytest.raises(InputError, match=r"no setting 'epsilom' in .*run.toml; did you mean 'epsilon'"):
        read_toml(file)
    file.write_text("epsilon = \n")
    with pytest.raises(InputError, match="not valid TOML"):
        read_toml(file)
    with pytest.raises(InputError, match="cannot be read"):
        read_toml(tmp_path / "none.toml")


def test_numbers_become_plain_ones() -> None:
    settings = Settings.of({"epsilon": np.float32(2), "samples": np.int64(5), "scales": (np.float64(0.5), 1)})
    assert [type(v) for v in (settings.epsilon, settings.samples, *(settings.scales or ()))] == [
        float,
        int,
        float,
        float,
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sample": 3}, "no setting 'sample'; did you mean 'samples'"),
        ({"epsilon": "one"}, "epsilon must be a number, got 'one'"),
        ({"epsilon": True}, "epsilon must be a number"),
        ({"epsilon": 0}, "epsilon must be positive, got 0; use inf"),
        ({"epsilon": float("nan")}, "epsilon must be positive"),
        ({"samples": 2.5}, "samples must be a whole number, got 2.5"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"keep": 1}, "keep must be true or false"),
        ({"scales": "0.5"}, "scales must be a list of numbers"),
        ({"selector": "rank"}, "selector must be one of .* did you mean 'ranking'"),
        ({"preset": "augpr"}, "did you mean 'augpe'"),
        ({"preset": 3}, "preset must be a text"),
        ({"threshold": 1.5}, "threshold is no longer a setting; remove it"),
        ({"signed": True}, "signed is no longer a setting; remove it"),
        ({"variation": "fill"}, "variation must be one of resample, rephrase, got 'fill'"),
        ({"selector": "kmedoids"}, "selector must be one of"),
        ({"preset": "gape-paper"}, "gape-paper needs separation, the paper's R; compute it on public data"),
        ({"bare_prompts": True, "topics": ["cats"]}, "no prompt names a topic; leave out one of them"),
        ({"separation": "kmeans"}, "separation must be a number, got 'kmeans'"),
        ({"separation": -1}, "separation must be positive"),
        ({"seed": -1}, "seed must not be negative"),
        ({"votes_per_unit": 2}, "name a user column"),
        ({"labels": ["a"]}, "name it as label"),
        ({"epsilon": 2, "budget_epsilon": 1}, "budget_epsilon must be at least epsilon"),
        ({"separation": 0}, "leave it out for none"),
        ({"engine": "spark"}, "engine must be one of local, ray, ray:ADDRESS, got 'spark'"),
        ({"engine": "ray:"}, "engine must be one of"),
        ({"engine": "local:here"}, "engine must be one of"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"engine": "ray", "label": "a", "labels_are_public": True}, "only the workers read the data; list the"),
    ],
)
def test_what_cannot_be_is_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings.of(values)


@pytest.mark.parametrize("engine", ["ray", "ray:auto", "ray:10.0.0.1:6379", "ray:ray://10.0.0.1:10001"])
def test_engines(engine: str) -> None:
    assert Settings.of({"engine": engine, "workers": 3, "label": "a", "labels": ["b"]}).on_ray
    assert not Settings.of({"workers": 3}).on_ray


def test_paths_become_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.of({"data": "a.csv", "prompts": "p.toml", "generator": "corpus:c.txt"}).anchored()
    assert settings.data == str(tmp_path / "a.csv")
    assert settings.prompts == str(tmp_path / "p.toml")
    assert settings.generator == f"corpus:{tmp_path / 'c.txt'}"
    plain = Settings.of({"prompts": "yelp", "generator": "embedded", "ledger": ":memory:"})
    assert plain.anchored() == plain


def test_every_choice_says_what_it_is() -> None:
    names = {each.name for each in settings_fields()}
    assert names >= OPERATIONAL
    assert names >= set(CHOICES)
    for each in settings_fields():
        assert each.metadata["help"].endswith((".", '".'))
