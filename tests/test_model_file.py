import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from unseen import TAEP, ZeroShotTagger, make_tagged_scenes
from unseen.baselines import ESZSL, LabelPropagation
from unseen.ensembles import BackboneKnowledge, Combination
from unseen.model_file import HEADER, _digest, is_own, load, read_notes, save


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(60, 5, n_features=12)


@pytest.fixture
def model(data):
    return TAEP(tol=1e-2).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)


@pytest.fixture
def file(model, tmp_path):
    model.save(tmp_path / "new folder" / "model.safetensors")
    return tmp_path / "new folder" / "model.safetensors"


def rewrite(file: Path, arrays: dict | None = None, **changed: object) -> None:
    """Change a model file, as someone would who knows how: its digest is right."""
    with safe_open(file, framework="numpy") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()} | (arrays or {})  # noqa: SIM118
        header = json.loads(opened.metadata()[HEADER]) | changed
    header["digest"] = _digest(header, tensors)
    save_file(tensors, file, metadata={HEADER: json.dumps(header)})


def header_of(file: Path) -> dict:
    with safe_open(file, framework="numpy") as opened:
        return json.loads(opened.metadata()[HEADER])


class TestSaving:
    def test_a_failed_save_leaves_the_old_file_and_names_the_path(self, file, model, monkeypatch):
        def fail(*args: object) -> None:
            raise OSError("disk full")

        before = file.read_bytes()
        monkeypatch.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match=f"^path: {re.escape(repr(str(file)))} .*disk full"):
            model.save(file)
        model.odd_ = {1, 2}
        with pytest.raises(TypeError, match=r"^odd_: a set"):
            model.save(file)
        assert file.read_bytes() == before
        assert list(file.parent.iterdir()) == [file]

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
        inner = Combination(TAEP(beta=2.0, tol=0.1), ESZSL(), 4)
        model = Combination(inner, ESZSL(), 8).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
        model.save(tmp_path / "model")
        loaded = ZeroShotTagger.load(tmp_path / "model")
        assert type(loaded.first_.first_) is TAEP
        assert loaded.get_params()["first__first__beta"] == loaded.first_.first_.beta == 2.0
        np.testing.assert_array_equal(loaded.decision_function(data.X_test), model.decision_function(data.X_test))

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
        with pytest.raises(ValueError, match=r"^path: .*'TAEP'"):
            ESZSL.load(file)

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

    def test_a_header_that_makes_no_sense_is_refused_and_nothing_is_imported(self, file):
        other = {"class": "antigravity", "params": {}, "state": {}}
        changes = [{"class": name} for name in ("os.system", "antigravity", ["TAEP"], "ZeroShotTagger")]
        changes += [{"params": params} for params in (None, {"no such parameter": 1}, {"rank": other})]
        changes += [{"state": {name: {"json": 1}}} for name in ("predict", "__class__")]
        changes += [
            {"state": {"classes_": entry}} for entry in (3, {"code": "1"}, {"tensor": "no"}, {"model": other})
        ]
        whole = file.read_bytes()
        for changed in (*changes, {"version": 99}, {"state": [1, 2]}, {"state": {"duals_": {"csr": [1, 1]}}}):
            file.write_bytes(whole)
            rewrite(file, **changed)
            with pytest.raises(ValueError, match=r"^path: "):
                ZeroShotTagger.load(file)
        assert "antigravity" not in sys.modules

    def test_every_flipped_bit_is_noticed(self, file):
        whole, rng = bytearray(file.read_bytes()), np.random.default_rng(0)
        for place, bit in zip(rng.integers(len(whole), size=300), rng.integers(8, size=300), strict=True):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            file.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"^path: "):
                TAEP.load(file)

    def test_a_model_that_lies_about_itself_is_refused(self, file):
        whole, header = file.read_bytes(), header_of(file)
        state, params = header["state"], header["params"]
        lies = [{"state": state | {"n_seen_": {"json": n}}} for n in (-1, 99, 1.5, "4", None, True)]
        lies += [{"state": state | {"n_features_in_": {"json": n}}} for n in (3, 10**9, "12")]
        lies += [{"params": params | {"center": value}} for value in ("yes", 1, None)]
        lies += [{"state": {name: value for name, value in state.items() if name != missing}} for missing in state
                 if missing in ("classes_", "label_names_", "label_vectors_", "n_features_in_", "n_seen_",
                                "single_label_", "threshold_weights_")]  # fmt: skip
        lies += [{"state": state | {"single_label_": {"json": value}}} for value in (0.5, "horse")]
        lies += [{"state": state | {"classes_": {"tensor": name}}} for name in ("label_vectors_", "moments_")]
        names = state["label_names_"]["tuple"]
        lies += [
            {"state": state | {"label_names_": {"tuple": given}}} for given in (names[:-1], names[:1] * 9, [3])
        ]
        for changed in lies:
            file.write_bytes(whole)
            rewrite(file, **changed)
            with pytest.raises(ValueError, match=r"^path: "):
                ZeroShotTagger.load(file)

    def test_a_model_inside_another_is_checked_as_well(self, data, file):
        evidence = BackboneKnowledge(np.random.default_rng(0).normal(size=(8, data.vectors.shape[1])))
        model = Combination(ESZSL(), evidence, 4)
        model.fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels).save(file)
        ZeroShotTagger.load(file)
        state = header_of(file)["state"]
        state["second_"]["model"]["state"]["cooccurrence_"] = {"json": 3.0}  # NaN for some images
        rewrite(file, state=state)
        with pytest.raises(ValueError, match=r"^path: .*cooccurrence_"):
            ZeroShotTagger.load(file)
        model.save(file)
        rewrite(file, {"second_.temperatures_": np.array([1e-307, 1.0])})  # NaN for large logits
        with pytest.raises(ValueError, match=r"^path: .*temperatures_"):
            ZeroShotTagger.load(file)

    @pytest.mark.parametrize("place", [30_000, -1])
    def test_trees_that_ask_for_what_is_not_there_are_refused(self, file, place):
        pytest.importorskip("onnxruntime")
        from tests.photos.world import calibrated

        model = calibrated().tagger
        model.save(file)
        ZeroShotTagger.load(file)
        features = model.calibration_.features_.copy()
        features[0, 0, 0] = place  # of the trees for labels without annotations
        rewrite(file, {"calibration_.features_": features})
        with pytest.raises(ValueError, match=r"^path: .*quantities"):
            ZeroShotTagger.load(file)

    def test_it_must_score_labels_that_it_has_not_met(self, data, file):
        model = LabelPropagation().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
        model.save(file)
        ZeroShotTagger.load(file)
        for name, number in (("alpha_", np.nan), ("temperature_", 5e-324), ("temperature_", 10**400)):
            header = header_of(file)
            assert name in header["state"]
            rewrite(file, state=header["state"] | {name: {"json": number}})
            with pytest.raises(ValueError, match=rf"^path: .*{name}"):
                ZeroShotTagger.load(file)
            model.save(file)

    @pytest.mark.parametrize("number", ["x", None, -1.0])
    def test_the_beta_of_a_fit_is_a_number(self, file, number):
        rewrite(file, state=header_of(file)["state"] | {"beta_": {"json": number}})
        with pytest.raises(ValueError, match=r"^path: .*beta_"):
            ZeroShotTagger.load(file)

    @pytest.mark.parametrize("number", [np.nan, np.inf, 1e300])
    def test_numbers_that_are_not_finite_are_refused(self, file, number):
        with safe_open(file, framework="numpy") as opened:
            arrays = {name: opened.get_tensor(name).astype(float) for name in opened.keys()}  # noqa: SIM118
        whole = file.read_bytes()
        for name, array in arrays.items():
            file.write_bytes(whole)
            array.ravel()[array.size // 2] = number
            rewrite(file, {name: array})
            with pytest.raises(ValueError, match=r"^path: .*finite"):
                TAEP.load(file)

    def test_models_inside_each_other_have_a_limit(self, file):
        inner = {"class": "Combination", "params": {}, "state": {}}
        for _ in range(20):
            inner = {
                "class": "Combination",
                "params": {"first": inner, "second": None, "n_features": 1},
                "state": {},
            }
        whole = file.read_bytes()
        for changed in (inner, {"params": json.loads("[" * 900 + "]" * 900)}):
            file.write_bytes(whole)
            rewrite(file, **changed)
            with pytest.raises(ValueError, match=r"^path: "):
                ZeroShotTagger.load(file)

    def test_models_of_this_user_are_known(self, file, model, tmp_path, monkeypatch):
        monkeypatch.setenv("UNSEEN_KEY", str(tmp_path / "mine"))
        assert not is_own(file)
        save(model, file, {"a": 1})
        assert is_own(file)
        whole, mark = file.read_bytes(), header_of(file)["mark"].encode()
        for place in range(len(mark)):
            damaged = mark[:place] + bytes([mark[place] ^ 1]) + mark[place + 1 :]
            file.write_bytes(whole.replace(mark, damaged))
            with pytest.raises(ValueError, match=r"^path: .*its mark is damaged"):
                ZeroShotTagger.load(file)
        rewrite(file, mark="é" * 64)
        assert not is_own(file)
        file.write_bytes(whole)
        assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o600
        rewrite(file, notes={"a": 2})
        assert not is_own(file)
        monkeypatch.setenv("UNSEEN_KEY", str(tmp_path / "other"))
        save(model, tmp_path / "theirs", {"a": 1})
        monkeypatch.setenv("UNSEEN_KEY", str(tmp_path / "mine"))
        assert not is_own(tmp_path / "theirs")
        (tmp_path / "mine").write_bytes(b"")  # of a process that was killed before it wrote
        save(model, file, {"a": 1})
        assert is_own(file)
