"""`decoder.cross` in training: it learns where words are, and keeps the ratio of lengths of its text."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from posnmt.base.interrupt import Interrupted
from posnmt.model.registry import build_model
from posnmt.run.resolve import load
from posnmt.run.run import checkpoints_in
from posnmt.training.train import train
from tests.support import corpus
from tests.support.tiny import VOCABULARY, settings
from tests.support.training_case import StopAt, assert_same, weights

CROSS = [
    *("model.decoder.cross=[{scheme: relative}, {scheme: fire}]", "model.dropout=0.2"),
    *("train.dev_bleu=false", "train.best_by=perplexity"),
]


@pytest.fixture(scope="module")
def config_path(tmp_path_factory):
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=120)


@pytest.fixture(scope="module")
def trained(config_path, tmp_path_factory):
    return train(load(config_path, CROSS), tmp_path_factory.mktemp("trained") / "run")


def lines_of(config_path, side):
    """The training text of a side."""
    return (config_path.parent / "corpus" / f"train.{side}").read_text(encoding="utf-8").splitlines()


def test_the_ratio_is_that_of_the_training_text(config_path, trained):
    text = trained.text()
    want = [
        sum(len(ids) + 1 for ids in getattr(text, side).encode(lines_of(config_path, side)))
        for side in ("source", "target")
    ]
    assert want[0] != want[1]
    for name in ("model", "best", "average", "last"):
        assert weights(trained.folder, name)["cross.lengths"].tolist() == want
    assert trained.model().cross.lengths.tolist() == want


def test_a_stopped_run_goes_on_bit_for_bit(config_path, trained, tmp_path, monkeypatch):
    config = load(config_path, CROSS)
    with monkeypatch.context() as patch:
        StopAt(5, patch)
        with pytest.raises(Interrupted):
            train(config, tmp_path / "run")
    train(config, tmp_path / "run", resume=True)
    assert_same(weights(tmp_path / "run"), weights(trained.folder))
    assert [place.name for place in checkpoints_in(tmp_path / "run" / "checkpoints")] == [
        place.name for place in checkpoints_in(trained.folder / "checkpoints")
    ]


@pytest.mark.parametrize(
    ("cross", "copied"),
    [
        ("[{scheme: fire}, {scheme: relative, distance: 3}]", {0: 1, 1: None}),
        ("[{scheme: relative}]", {0: 0}),
        ("[{scheme: rope}]", {}),
    ],
)
def test_a_training_continues_with_the_schemes_and_the_ratio_of_the_run(config_path, trained, tmp_path, cross, copied):
    """Another text has another ratio; the weights were trained with that of the run."""
    dev = {side: str(config_path.parent / "corpus" / f"dev.{side}") for side in ("source", "target")}
    short = ["train.steps=3", "train.evaluate_every=3"]
    tree = load(config_path, [*CROSS, *short, f"train.init={trained.folder}", f"model.decoder.cross={cross}"])
    data = tree.data.model_copy(update={"train": tree.data.train.model_copy(update=dev)})
    subword = tree.subword.model_copy(update={"text": str(trained.folder / "text")})
    run = train(tree.model_copy(update={"data": data, "subword": subword}), tmp_path / "run")
    before, got = weights(trained.folder, "model"), weights_at_start(run)
    assert got["cross.lengths"].tolist() == before["cross.lengths"].tolist()
    for place, origin in copied.items():
        for name in [name for name in got if name.startswith(f"cross.schemes.{place}.")]:
            if origin is None:
                assert name in run.record["init"]["new"]
            else:
                assert torch.equal(got[name], before[name.replace(f"schemes.{place}", f"schemes.{origin}")])
    new = {name.split(".")[2] for name in run.record["init"]["new"]}
    assert new == {str(place) for place, origin in copied.items() if origin is None}
    assert run.record["init"]["positions"]["cross"] == ["relative", "fire"]


def weights_at_start(run):
    """The weights before the first update."""
    from safetensors.torch import load_file

    return load_file(run.folder / "checkpoints" / "step-00000000" / "model.safetensors")


def test_a_frozen_part_has_a_name_of_its_own(config_path, tmp_path):
    run = train(load(config_path, [*CROSS, "train.freeze=[position.cross.0]", "train.steps=4"]), tmp_path / "run")
    assert run.record["frozen"] == [f"cross.schemes.0.layers.0.{name}" for name in ("keys", "additions")]


def test_distances_are_chosen_as_those_of_the_sides(config_path, tmp_path):
    from posnmt.training.choose import Written, for_training

    written = {"data": {"train": {side: f"{config_path.parent}/corpus/train.{side}" for side in ("source", "target")}}}
    written |= {"model": {"system": "relative", "decoder": {"cross": [{"scheme": "relative"}]}}}
    chosen = for_training(Written.from_settings(written), lambda line: None).config.model
    assert chosen.decoder.cross[0].options["distance"] == chosen.decoder.position[0].options["distance"] < 16


def loss_after(cross, lengths, updates=60):
    """The loss of a model that copies each of 12 words twice, at equal updates and with equal batches."""
    torch.manual_seed(1)
    side = {"layers": 1, "position": [{"scheme": "sinusoidal"}]}
    part = settings(d_model=32, feed_forward=32, encoder=side, decoder={**side, "cross": cross})
    model = build_model(part, VOCABULARY, VOCABULARY)
    model.learn_lengths(*lengths)
    optimizer, generator = torch.optim.Adam(model.parameters(), lr=3e-3), torch.Generator().manual_seed(2)

    def loss():
        source = torch.randint(4, VOCABULARY, (16, 12), generator=generator)
        target = source.repeat_interleave(2, dim=1)
        begun = torch.cat([torch.full((16, 1), 2), target[:, :-1]], dim=1)
        return cross_entropy(model.project(model(source, None, begun)).flatten(0, 1), target.flatten())

    for _ in range(updates):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return loss().item()


def test_positions_in_attention_to_the_source_learn_a_diagonal_sooner():
    """With the right ratio they learn it, and with a wrong one they do not help."""
    without, right, wrong = (
        loss_after([], (1, 2)),
        *(loss_after([{"scheme": "relative"}], each) for each in ((1, 2), (1, 1))),
    )
    assert right < 0.2
    assert min(without, wrong) > 1.2


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["alibi", "t5-bias", "kerple", "rope"])
def test_every_scheme_learns_a_diagonal_sooner(scheme):
    assert loss_after([{"scheme": scheme}], (1, 2), 120) < 0.8 * loss_after([], (1, 2), 120)
