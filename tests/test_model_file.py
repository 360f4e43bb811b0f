import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from tests.contract.estimators import LeastSquares

from unseen import TAEP, ZeroShotTagger, make_tagged_scenes
from unseen.model_file import HEADER, load, read_notes, save


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(60, 5, n_features=12)


@pytest.fixture
def model(data):
    return TAEP(tol=1e-2).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)


@pytest.fixture
def file(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def rewrite(file: Path, **changed: object) -> None:
    """Change entries of the header of a model file, which stays a valid safetensors file."""
    with safe_open(file, framework="numpy") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        header = json.loads(opened.metadata()[HEADER]) | changed
    save_file(tensors, file, metadata={HEADER: json.dumps(header)})


class Pair(ZeroShotTagger):
    """A tagger made of two: one that it is given, one that it makes itself."""

    normalize, center = True, True

    def __init__(self, first=None):
        self.first = first

    def _fit(self, problem):
        Y = problem.T == 1
        self.first_ = self.first.fit(problem.X, Y, problem.seen)
        self.second_ = LeastSquares(center=False).fit(problem.X, Y, problem.seen)

    def _margin_scores(self, X, M):
        return self.first_._margin_scores(X, M) + self.second_._margin_scores(X, M)


class TestSaving:
    def test_directories_are_made_and_the_file_is_all_that_is_left(self, model, tmp_path):
        path = tmp_path / "a" / "b" / "model"
        model.save(path)
        (tmp_path / "plain").touch()
        assert list(path.parent.iterdir()) == [path]
        assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode

    def test_a_failed_save_leaves_the_old_file_and_names_the_path(self, file, model, monkeypatch):
        def fail(*args: object) -> None:
            raise OSError("disk full")

        before = file.read_bytes()
        monkeypatch.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match=f"^path: {re.escape(repr(str(file)))} .*disk full"):
            model.save(file)
        assert file.read_bytes() == before
        assert list(file.parent.iterdir()) == [file]

    def test_what_cannot_be_described_fails_before_anything_is_written(self, model, tmp_path):
        model.odd_ = {1, 2}
        with pytest.raises(TypeError, match=r"^odd_: a set"):
            model.save(tmp_path / "model")
        assert not list(tmp_path.iterdir())

    def test_parameters_come_back_as_plain_values_and_a_generator_as_none(self, data, tmp_path):
        model = TAEP(rank=np.int64(3), beta=np.float32(2.0), tol=1e-2, random_state=np.random.RandomState(0))
        model.fit(data.X_train, data.Y_train)
        with pytest.warns(UserWarning, match=r"^random_state: ") as caught:
            model.save(tmp_path / "model")
        assert caught[0].filename == __file__
        loaded = TAEP.load(tmp_path / "model")
        assert (loaded.rank, type(loaded.rank), loaded.beta, type(loaded.beta)) == (3, int, 2.0, float)
        assert loaded.random_state is None

    def test_half_precision_is_kept_in_the_file_alone(self, model, tmp_path):
        exact = np.arange(5, dtype=np.float32)
        model.half_, model.exact_, model.inexact_ = exact.astype(np.float16), exact, exact / 3
        model.save(tmp_path / "model")
        with safe_open(tmp_path / "model", framework="numpy") as file:
            dtypes = [file.get_tensor(name).dtype for name in ("half_", "exact_", "inexact_")]
        assert dtypes == [np.float16, np.float16, np.float32]
        loaded = TAEP.load(tmp_path / "model")
        for name in ("half_", "exact_", "inexact_"):
            assert getattr(loaded, name).dtype == np.float32
            np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))

    def test_taggers_inside_a_tagger_are_saved_with_it(self, data, tmp_path):
        Y = data.Y_train[:, data.seen]
        model = Pair(Pair(TAEP(beta=2.0, tol=0.1))).fit(data.X_train, Y, data.seen_labels)
        model.save(tmp_path / "model")
        loaded = ZeroShotTagger.load(tmp_path / "model")
        assert type(loaded.first_.first_) is TAEP
        assert loaded.get_params()["first__first__beta"] == loaded.first_.first_.beta == 2.0
        np.testing.assert_array_equal(loaded.decision_function(data.X_test), model.decision_function(data.X_test))
        loaded.fit(data.X_train, Y, data.seen_labels)  # its parts can be fitted again

    def test_notes_are_returned_and_do_not_matter(self, file, model):
        assert read_notes(file) == {}
        save(model, file, {"photos": {"backbone": "lite0"}})
        assert read_notes(file) == {"photos": {"backbone": "lite0"}}
        assert load(file, TAEP).label_names_ == model.label_names_
        rewrite(file, notes=[1])
        with pytest.raises(ValueError, match=r"^path: "):
            read_notes(file)


class TestLoading:
    def test_the_base_class_finds_the_class_that_was_saved(self, file):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert type(ZeroShotTagger.load(file)) is type(TAEP.load(str(file))) is TAEP
        code = f"from unseen import ZeroShotTagger; print(type(ZeroShotTagger.load({str(file)!r})).__name__)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.strip() == "TAEP", done.stderr

    def test_other_files_are_refused(self, file, tmp_path):
        for path in (tmp_path / "nothing", tmp_path):
            with pytest.raises(FileNotFoundError, match=r"^path: "):
                TAEP.load(path)
        whole, other = file.read_bytes(), tmp_path / "other"
        noise = np.random.default_rng(0).bytes(1000)
        for content in (b"", whole[:50], whole[: len(whole) // 3], whole[:-9], noise):
            other.write_bytes(content)
            with pytest.raises(ValueError, match=r"^path: '.*other'"):
                TAEP.load(other)
        for metadata in (None, {"format": "pt"}):
            save_file({"weight": np.zeros(3)}, other, metadata=metadata)
            with pytest.raises(ValueError, match=r"^path: '.*other'"):
                TAEP.load(other)

    def test_the_model_of_another_class_is_refused(self, file):
        with pytest.raises(ValueError, match=r"^path: .*'TAEP'"):
            Pair.load(file)

    @pytest.mark.parametrize(
        "changed",
        [
            {"version": 99},
            {"class": "os.system"},
            {"class": "antigravity"},
            {"class": ["TAEP"]},
            {"class": "ZeroShotTagger"},
            {"params": {"no such parameter": 1}},
            {"params": {"rank": {"class": "antigravity", "params": {}, "state": {}}}},
            {"params": None},
            {"state": [1, 2]},
            {"state": {"predict": {"json": 1}}},
            {"state": {"__class__": {"json": 1}}},
            {"state": {"classes_": 3}},
            {"state": {"classes_": {"code": "print(1)"}}},
            {"state": {"classes_": {"tensor": "no such tensor"}}},
            {"state": {"part_": {"model": {"class": "antigravity", "params": {}, "state": {}}}}},
            {"state": {"duals_": {"csr": [1, 1]}}},
        ],
        ids=str,
    )
    def test_a_header_that_makes_no_sense_is_refused_and_nothing_is_imported(self, file, changed):
        rewrite(file, **changed)
        with pytest.raises(ValueError, match=r"^path: "):
            ZeroShotTagger.load(file)
        assert "antigravity" not in sys.modules
