import ast
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
from sklearn.exceptions import NotFittedError

import unseen
from unseen import TAEP, ZeroShotTagger, make_tagged_scenes
from unseen import model_file as persistence
from unseen.files import write_atomically


@pytest.fixture(scope="module")
def model() -> TAEP:
    data = make_tagged_scenes(60, 5, n_features=12)
    return TAEP(tol=1e-2).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)


@pytest.fixture
def file(model: TAEP, tmp_path: Path) -> Path:
    model.save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def rewrite(file: Path, **changed: object) -> None:
    """Change entries of the header of a model file, which stays a valid safetensors file."""
    with safe_open(file, framework="numpy") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        header = json.loads(opened.metadata()[persistence.HEADER]) | changed
    save_file(tensors, file, metadata={persistence.HEADER: json.dumps(header)})


class TestSaving:
    def test_the_file_is_the_only_thing_left(self, file: Path) -> None:
        assert list(file.parent.iterdir()) == [file]

    def test_missing_directories_are_made_and_permissions_are_the_usual_ones(
        self, model: TAEP, tmp_path: Path
    ) -> None:
        model.save(tmp_path / "a" / "b" / "model")
        (tmp_path / "plain").touch()
        assert (tmp_path / "a" / "b" / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode

    def test_an_unfitted_model_is_not_saved(self, tmp_path: Path) -> None:
        with pytest.raises(NotFittedError, match=r"not fitted yet. Call 'fit'"):
            TAEP().save(tmp_path / "model")
        assert not list(tmp_path.iterdir())

    def test_a_path_that_cannot_be_written_is_named(self, model: TAEP, tmp_path: Path) -> None:
        (tmp_path / "regular file").touch()
        (tmp_path / "directory").mkdir()
        for path in (tmp_path / "regular file" / "model", tmp_path / "directory"):
            with pytest.raises(OSError, match=f"path: {re.escape(repr(str(path)))} cannot be written .* Pass"):
                model.save(path)
        assert sorted(tmp_path.rglob("*")) == [tmp_path / "directory", tmp_path / "regular file"]

    def test_a_failed_save_leaves_the_old_file_and_no_other(
        self, file: Path, model: TAEP, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*args: object) -> None:
            raise OSError("disk full")

        before = file.read_bytes()
        monkeypatch.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="^path: "):
            model.save(file)
        assert file.read_bytes() == before
        assert list(file.parent.iterdir()) == [file]

    @pytest.mark.parametrize("problem", [OSError("disk full"), KeyboardInterrupt(), ZeroDivisionError()])
    def test_a_writer_that_stops_half_way_leaves_nothing(self, tmp_path: Path, problem: BaseException) -> None:
        def write_half(path: Path) -> None:
            path.write_text("half a")
            raise problem

        (tmp_path / "report").write_text("old")
        with pytest.raises(type(problem)):
            write_atomically(tmp_path / "report", write_half)
        assert (tmp_path / "report").read_text() == "old"
        assert list(tmp_path.iterdir()) == [tmp_path / "report"]

    def test_what_cannot_be_described_fails_before_anything_is_written(self, tmp_path: Path) -> None:
        data = make_tagged_scenes(40, 5, n_features=12)
        model = TAEP(tol=1e-2).fit(data.X_train, data.Y_train)
        model.odd_ = {1, 2}  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match=r"odd_: a set cannot be saved\."):
            model.save(tmp_path / "model")
        assert not list(tmp_path.iterdir())

    def test_any_writer_can_be_made_atomic(self, tmp_path: Path) -> None:
        write_atomically(tmp_path / "text", lambda path: path.write_text("whole"))
        assert (tmp_path / "text").read_text() == "whole"

    def test_parameters_of_numpy_types_come_back_as_plain_ones(self, tmp_path: Path) -> None:
        data = make_tagged_scenes(40, 5, n_features=12)
        model = TAEP(rank=np.int64(3), beta=np.float32(2.0), tol=1e-2).fit(data.X_train, data.Y_train)
        model.save(tmp_path / "model")
        loaded = TAEP.load(tmp_path / "model")
        assert (loaded.rank, type(loaded.rank), loaded.beta, type(loaded.beta)) == (3, int, 2.0, float)

    def test_a_generator_is_not_kept_and_the_warning_says_so(self, tmp_path: Path) -> None:
        data = make_tagged_scenes(40, 5, n_features=12)
        model = TAEP(tol=1e-2, random_state=np.random.RandomState(0)).fit(data.X_train, data.Y_train)
        with pytest.warns(UserWarning, match="random_state: a RandomState cannot be saved") as caught:
            model.save(tmp_path / "model")
        assert caught[0].filename == __file__
        assert TAEP.load(tmp_path / "model").random_state is None


class TestLoading:
    def test_the_base_class_finds_the_class_that_was_saved(self, file: Path) -> None:
        assert type(ZeroShotTagger.load(file)) is TAEP
        assert type(TAEP.load(str(file))) is TAEP

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        for path in (tmp_path / "nothing", tmp_path):
            with pytest.raises(FileNotFoundError, match="^path: "):
                TAEP.load(path)

    @pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
    def test_a_truncated_file_is_refused(self, file: Path, share: float) -> None:
        whole = file.read_bytes()
        file.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ValueError, match="^path: "):
            TAEP.load(file)

    @pytest.mark.parametrize("seed", range(5))
    def test_random_bytes_are_refused(self, tmp_path: Path, seed: int) -> None:
        (tmp_path / "noise").write_bytes(np.random.default_rng(seed).bytes(1000))
        with pytest.raises(ValueError, match="^path: "):
            TAEP.load(tmp_path / "noise")

    @pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
    def test_the_tensors_of_something_else_are_refused(
        self, tmp_path: Path, metadata: dict[str, str] | None
    ) -> None:
        save_file({"weight": np.zeros(3)}, tmp_path / "other", metadata=metadata)
        with pytest.raises(ValueError, match="^path: "):
            TAEP.load(tmp_path / "other")

    def test_another_format_version_is_refused(self, file: Path) -> None:
        rewrite(file, version=99)
        with pytest.raises(ValueError, match="^path: "):
            TAEP.load(file)

    def test_the_model_of_another_class_is_refused(self, file: Path) -> None:
        class Rival(TAEP):
            pass

        with pytest.raises(ValueError, match="^path: "):
            Rival.load(file)

    @pytest.mark.parametrize("name", ["os.system", "antigravity", "Popen", "object", "", None, ["TAEP"]])
    def test_a_class_of_no_tagger_is_refused_and_nothing_is_imported(self, file: Path, name: object) -> None:
        rewrite(file, **{"class": name})
        with pytest.raises(ValueError, match="^path: "):
            ZeroShotTagger.load(file)
        assert "antigravity" not in sys.modules

    @pytest.mark.parametrize(
        "changed",
        [
            {"class": "ZeroShotTagger"},
            {"params": {"no such parameter": 1}},
            {"params": None},
            {"state": [1, 2]},
            {"state": {"predict": {"json": 1}}},
            {"state": {"__class__": {"json": 1}}},
            {"state": {"classes_": {}}},
            {"state": {"classes_": 3}},
            {"state": {"classes_": {"code": "print(1)"}}},
            {"state": {"classes_": {"tensor": "no such tensor"}}},
            {"state": {"duals_": {"csr": [1, 1]}}},
            {"state": {"duals_": {"csr": [60, 1]}}},
        ],
        ids=str,
    )
    def test_a_header_that_makes_no_sense_is_refused(self, file: Path, changed: dict[str, object]) -> None:
        rewrite(file, **changed)
        with pytest.raises(ValueError, match="^path: "):
            ZeroShotTagger.load(file)

    def test_loading_is_silent(self, file: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ZeroShotTagger.load(file)


def test_nothing_in_the_package_imports_a_pickler() -> None:
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
    for source in Path(unseen.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & forbidden, source
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_joblib = isinstance(node.func.value, ast.Name) and node.func.value.id == "joblib"
                assert not (is_joblib and node.func.attr in ("dump", "load")), source


def test_the_base_class_finds_the_class_of_a_file_in_a_fresh_process(tmp_path):
    data = make_tagged_scenes(60, 5)
    path = tmp_path / "model.safetensors"
    TAEP(tol=0.1).fit(data.X_train, data.Y_train).save(path)
    code = f"from unseen import ZeroShotTagger; print(type(ZeroShotTagger.load({str(path)!r})).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "TAEP", done.stderr
