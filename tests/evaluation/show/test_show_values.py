"""What is measured, against plain loops: by distance, similarity, moved words, penalties, counts, norms."""

import math

import numpy as np
import pytest
import torch

import posnmt
from posnmt.config.schema import Positions
from posnmt.evaluation.show.by_distance import _equal_layers
from posnmt.evaluation.show.collect import attentions, collect, trained_tokens
from posnmt.evaluation.show.command import Page
from posnmt.evaluation.show.lines import Lines
from posnmt.evaluation.show.sections import Sentence, Shown, marks
from posnmt.evaluation.show.vectors import layer_norms
from posnmt.model.base import stacks
from posnmt.model.positions import SCHEMES
from posnmt.run.run import Run
from posnmt.translate.distances import Sums, mass, mean
from posnmt.translate.runs import trained_model
from posnmt.translate.translator import Translator
from posnmt.translate.values import AttentionMap, TrainedTokens
from posnmt_position.distance_vectors import ByDistanceVectors
from posnmt_position.seam import Span
from tests.support import tiny
from tests.support.untrained import LEARNED, untrained

LINES = (["mo ra si", "ka ti mo ra", "un"], ["ti ka", "mo", "si ra ti"])


@pytest.fixture(scope="module")
def text():
    return Run.open(LEARNED).text()


@pytest.fixture(scope="module")
def measure(text):
    """A function: part of the `model` section → a model with random weights, and its positions on a few lines."""

    def measure(part, length=12, lines=LINES):
        torch.manual_seed(0)
        settings = tiny.settings(**part)
        model = tiny.build_model(settings, text.source.size, text.target.size)
        translator = Translator([model], text)
        return model, translator, collect(translator, Run.open(LEARNED), *lines, length)

    return measure


def random_maps(seed=1):
    """Weights of 2 layers and 3 heads for sentences of different lengths, each head with a mask of its own."""
    chosen = np.random.default_rng(seed)
    maps = []
    for queries, keys in ((5, 5), (2, 7), (6, 3)):
        seen = chosen.random((2, 3, queries, keys)) < 0.7
        seen[0, 0] = np.tri(queries, keys, dtype=bool)
        seen[..., 0] = True
        maps.append((chosen.random(seen.shape), seen))
    return maps


def test_means_by_distance_are_those_of_loops():
    maps = random_maps()
    by_mean, by_mass = (combine([Sums.of(*each) for each in maps]) for combine in (mean, mass))
    found = {}
    for values, seen in maps:
        for layer, head, query, key in zip(*np.nonzero(seen), strict=True):
            found.setdefault((layer, head, key - query), []).append(values[layer, head, query, key])
    queries = sum(values.shape[2] for values, _ in maps)
    assert by_mean.distances.tolist() == by_mass.distances.tolist() == sorted({key[2] for key in found})
    for layer in range(2):
        for head in range(3):
            for place, distance in enumerate(by_mean.distances):
                there = found.get((layer, head, distance))
                expected = (math.nan, math.nan) if there is None else (sum(there) / len(there), sum(there) / queries)
                got = by_mean.values[layer, head, place], by_mass.values[layer, head, place]
                assert got == pytest.approx(expected, nan_ok=True)
    most = [
        max(len(found.get((layer, head, distance), [])) for layer in range(2) for head in range(3))
        for distance in by_mass.distances
    ]
    assert by_mass.pairs.tolist() == most


DEVICES = ["cpu", *["cuda"] * torch.cuda.is_available()]


@pytest.mark.parametrize("device", DEVICES)
def test_layers_without_vectors_have_no_lengths_beside_those_that_have(device):
    """Also on a GPU, where the vectors are; what stands for missing ones is not there."""
    schemes = [{"scheme": "relative", "distance": 2, "layers": [1]}]
    model = tiny.build_model(
        tiny.settings(encoder={"position": schemes, "layers": 3}, decoder={"position": [], "layers": 1}), 20, 20
    ).to(device)
    [view] = [each for each in model.encoder_views[1].biasing if isinstance(each, ByDistanceVectors)]
    [keys, *_] = layer_norms(model.encoder_views, None, causal=False)
    assert np.isnan(keys.norms[[0, 2]]).all()
    expected = view.distance_vectors().keys.detach().cpu().numpy()
    np.testing.assert_allclose(keys.norms[1], [np.sqrt((row**2).sum()) for row in expected], rtol=1e-6)


def test_a_map_by_distance_is_the_mean_of_its_diagonals():
    [(values, seen), *_] = random_maps()
    curve = AttentionMap(["a"] * 5, ["a"] * 5, values, seen, values.astype(np.float32)).by_distance()
    there = [values[1, 2, query, query + 2] for query in range(3) if seen[1, 2, query, query + 2]]
    assert curve.bias[1, 2, curve.distances.tolist().index(2)] == pytest.approx(np.mean(there))


def test_the_begin_symbol_of_a_source_is_among_what_is_read(measure):
    _, translator, _ = measure({"system": "relative", "source_begin": True})
    shown = attentions(translator, LINES[0][1], LINES[1][1])
    source, target = (len(side.encode([lines[1]])[0]) for side, lines in
                      ((translator.text.source, LINES[0]), (translator.text.target, LINES[1])))  # fmt: skip
    assert (shown.encoder.keys[0], shown.encoder.keys[-1]) == ("<s>", "</s>")
    assert len(shown.encoder.keys) == source + 2
    assert shown.encoder.weights.shape[-2:] == (source + 2, source + 2)
    assert shown.cross.weights.shape[-2:] == (target + 1, source + 2)


def test_the_begin_symbol_of_a_source_counts_among_the_trained_tokens(tmp_path):
    plain, begun = (
        Run.open(untrained(tmp_path / str(begins), "relative", source_begin=begins)) for begins in (False, True)
    )
    tokens = [trained_tokens(run) for run in (plain, begun)]
    assert tokens[1]["encoder"].longest == tokens[0]["encoder"].longest + 1
    assert tokens[1]["encoder"].shortest == tokens[0]["encoder"].shortest + 1
    assert tokens[1]["decoder"].longest == tokens[0]["decoder"].longest
    logits = trained_model(begun, "model", Positions(temperature="log"))
    assert {view.temperature.trained for view in logits.encoder_views} == {tokens[1]["encoder"].longest}
    assert {view.temperature.trained for view in logits.decoder_views} == {tokens[1]["decoder"].longest}


def test_attention_of_all_distances_is_one(measure):
    _, _, positions = measure({"system": "relative"})
    assert positions.lines == 3
    for each in (positions.encoder.attention, positions.decoder.attention, positions.cross):
        np.testing.assert_allclose(np.nansum(each.values, axis=-1), 1, atol=1e-5)
    assert positions.decoder.attention.distances.max() == 0


def test_a_bias_is_that_of_its_equation_and_that_of_the_lines(measure):
    _, _, positions = measure({"system": "alibi"})
    bias, logits = positions.encoder.bias, positions.encoder.logits
    assert bias.distances.tolist() == list(range(-11, 12))
    expected = [[-(2.0 ** -(2 * head)) * abs(distance) for distance in bias.distances] for head in (1, 2, 3, 4)]
    np.testing.assert_allclose(bias.bias, [expected] * 2, atol=1e-6)
    np.testing.assert_allclose(logits.values, bias.bias[..., np.isin(bias.distances, logits.distances)], atol=1e-5)
    assert _equal_layers(bias.bias) == [[0, 1]]


def test_the_logits_of_a_scheme_that_reads_words_are_the_mean_over_the_lines(measure):
    _, translator, positions = measure({"system": "relative"}, lines=(["mo ra si"], ["ti"]))
    assert positions.encoder.bias is None
    recorded = translator.attend("mo ra si", "ti")[2].encoder.position
    for layer, term in enumerate(recorded):
        for place, distance in enumerate(positions.encoder.logits.distances.tolist()):
            there = [term[1, query, query + distance].item() for query in range(term.shape[1])
                     if 0 <= query + distance < term.shape[2]]  # fmt: skip
            assert positions.encoder.logits.values[layer, 1, place] == pytest.approx(np.mean(there), abs=1e-5)


def test_positions_of_sinusoids_are_as_similar_as_their_equation_says(measure):
    _, _, positions = measure({"system": "transformer"})
    alike = positions.encoder.similarity
    assert alike.words == []
    assert alike.cosine.shape == (12, 12)
    rates = [10000 ** (-2 * feature / 16) for feature in range(8)]
    for one in range(12):
        for other in range(12):
            product = sum(math.cos((one - other) * rate) for rate in rates) / 8
            assert alike.cosine[one, other] == pytest.approx(product, abs=1e-5)


def test_states_of_a_recurrence_are_compared_on_one_word(measure):
    model, translator, positions = measure({"system": "rnn"}, length=5)
    alike = positions.encoder.similarity
    ids = [id_ for line in LINES[0] for id_ in translator.text.source.encode([line])[0]]
    counts = {id_: ids.count(id_) for id_ in ids}
    words = sorted(counts, key=lambda id_: (-counts[id_], id_))[:8]
    assert alike.words == [translator.text.source.subwords.pieces[id_] for id_ in words]
    [scheme] = model.source.position_schemes()
    expected = np.zeros((5, 5))
    with torch.no_grad():
        for word in words:
            x = model.source.table.weight[word].repeat(1, 5, 1) * 4  # sqrt(16)
            states = scheme.embed(x, Span(0, 5, x.device), None)[0][0]
            for one in range(5):
                for other in range(5):
                    cosine = torch.cosine_similarity(states[one], states[other], dim=0).item()
                    expected[one, other] += cosine / len(words)
    np.testing.assert_allclose(alike.cosine, expected, atol=1e-5)


def test_moved_words_are_felt_as_far_as_a_loop_says(measure):
    model, translator, positions = measure({"system": "rnn"})
    [scheme] = model.source.position_schemes()

    def states(ids):
        x = model.source.table(torch.tensor([ids])) * 4
        return scheme.embed(x, Span(0, len(ids), x.device), None)[0][0]

    changes = {}
    with torch.no_grad():
        for line in LINES[0]:
            ids = [*translator.text.source.encode([line])[0], 3]
            whole = states(ids)
            for place in range(len(ids) - 2):  # </s> stays where it is
                if ids[place] == ids[place + 1]:
                    continue
                moved = states([*ids[:place], ids[place + 1], ids[place], *ids[place + 2 :]])
                for at in range(len(ids)):
                    change = ((moved[at] - whole[at]).norm() / whole[at].norm()).item()
                    changes.setdefault(at - place, []).append(change)
    got = positions.encoder.moved
    assert got.distances.tolist() == sorted(changes)
    assert got.exchanges.tolist() == [len(changes[distance]) for distance in sorted(changes)]
    expected = [np.mean(changes[distance]) for distance in sorted(changes)]
    np.testing.assert_allclose(got.change, expected, atol=1e-5)
    assert (got.change[got.distances < 0] < 1e-6).all(), "it reads from left to right"
    assert got.change[got.distances > 1].any()


def test_penalties_are_those_of_the_equation(measure):
    model, translator, _ = measure({"system": "re-encoder"})
    from posnmt.evaluation.show.collect import attentions

    seen = []
    views = [view.refining[0] for view in model.encoder_views]
    hooks = [view.penalty.register_forward_hook(lambda *each: seen.append(each[2])) for view in views]
    attention = attentions(translator, "mo ra", "ti")
    for hook in hooks:
        hook.remove()
    count = len(attention.encoder.queries)
    assert attention.encoder.penalties.shape == (2, count, 16)
    expected = torch.stack([each[0] for each in seen[1::2]]).sigmoid()  # what is read first, then what acts
    np.testing.assert_allclose(attention.encoder.penalties, expected, atol=1e-6)
    assert attention.decoder.penalties is None
    again = model.encode(torch.tensor([[5, 6, 3]]), None)
    assert again.shape == (1, 3, 16), "the views are as they were"
    assert all("refine" not in vars(view) for view in model.encoder_views)


def test_counts_are_sums_of_gates(measure):
    model, translator, positions = measure({"system": "cope"}, lines=(["mo ra si"], ["ti ka"]))
    from posnmt.evaluation.show.collect import attentions

    counted = attentions(translator, "mo ra si", "ti ka").decoder.counted
    layer = model.decoder[0].attention
    ids = [2, *translator.text.target.encode(["ti ka"])[0]]
    with torch.no_grad():
        q, k, _ = layer.heads_of(model.target.table(torch.tensor([ids])) * 4, model.decoder_views[0])
        for query in range(len(ids)):
            for key in range(query + 1):
                gates = [(q[0, 3, query] @ k[0, 3, each]).sigmoid().item() for each in range(key, query + 1)]
                assert counted[0, 3, query, key] == pytest.approx(min(sum(gates), 63), abs=1e-4)
    far = positions.decoder.counted
    assert far.values[0, 3, 0] == pytest.approx(counted[0, 3, len(ids) - 1, 0])


def test_norms_of_trained_vectors_with_the_share_of_training(measure):
    schemes = {
        "encoder": [{"scheme": "learned"}, {"scheme": "relative", "distance": 30}],
        "decoder": [{"scheme": "relative", "distance": 2, "values": False}],
    }
    model, _, positions = measure({side: {"position": each} for side, each in schemes.items()})
    words, keys, values = positions.encoder.vectors
    assert [(each.name, each.kind) for each in (words, keys, values)] == [
        ("words", "position"), ("keys", "distance"), ("values", "distance"),
    ]  # fmt: skip
    table = model.source.schemes[0].table
    np.testing.assert_allclose(words.norms, table.detach().norm(dim=-1)[None], atol=1e-5)
    assert keys.places.tolist() == list(range(-30, 31))
    relative = model.source.schemes[1].layers[1]
    np.testing.assert_allclose(values.norms[1], relative.additions.detach().norm(dim=-1), atol=1e-5)
    # sources of 5 to 24 subwords, and </s>: positions 0 to 5 in all of them, 25 and beyond in none
    assert words.share[5] == 1
    assert np.isnan(words.share[6:25]).all()
    assert not words.share[25:].any()
    assert keys.share.tolist()[5] == 0
    [only] = positions.decoder.vectors
    assert only.share.tolist() == [1, 1, 1, 0, 0], "keys to the right are hidden"


def test_shares_are_counted_where_the_lengths_are_known():
    trained = TrainedTokens(2, 5, np.array([5, 2, 3, 3]))
    assert trained.share(np.array([-4, -2, 0, 1, 2, 3, 5])).tolist() == [0.25, 0.75, 1, 1, 0.75, 0.25, 0]


def test_what_is_marked():
    five, seven = (TrainedTokens(1, longest, None) for longest in (5, 7))
    assert marks([-5, -4, 0, 4, 5], [five]) == ["unseen", "seen", "seen", "seen", "unseen"]
    assert marks([4, 6, 7], [five, seven]) == ["seen", "partly unseen", "unseen"]
    assert marks([-6, -5, 5, 6], [five], [seven]) == ["unseen", "unseen", "seen", "seen"]
    assert marks([0], [five, None]) is None


HAS = {
    "similarity": {"sinusoidal", "learned", "recurrent", "recurrent-heads", "shape", "cape", "randomised"},
    "moved": {"recurrent", "recurrent-heads"},
    "penalties": {"reordering"},
    "counted": {"cope"},
    "vectors": {"learned", "relative"},
    "logits": {
        "relative",
        "transformer-xl",
        "rope",
        "xpos",
        "alibi",
        "t5-bias",
        "kerple",
        "sandwich",
        "fire",
        "cope",
        "fox",
    },
}
"""Section -> the schemes, each alone, that have it."""


def test_schemes_of_single_layers_are_shown_in_these(measure):
    from posnmt.evaluation.show.collect import attentions

    schemes = [
        {"scheme": "relative", "layers": [0], "distance": 2}, {"scheme": "relative", "layers": [1], "distance": 3},
        {"scheme": "cope", "layers": [1]}, {"scheme": "reordering", "layers": [1]},
    ]  # fmt: skip
    _, translator, positions = measure(tiny.encoder(*schemes))
    attention = attentions(translator, "mo ra", "ti")
    for values in (attention.encoder.counted, attention.encoder.penalties, positions.encoder.counted.values):
        assert np.isnan(values[0]).all()
        assert np.isfinite(values[1]).any()
    keys, _ = positions.encoder.vectors
    assert keys.places.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert np.isnan(keys.norms).tolist() == [[True, *[False] * 5, True], [False] * 7]
    shown = Shown("mine", 0, "", positions, [Sentence(1, attention)])
    charts = [
        chart for section in Page([shown], Lines("", [1], ["a"], ["b"]), []).sections() for chart in section.charts
    ]
    for chart in charts:
        assert any(value is not None for _, curve in chart.columns() for value in curve.values), chart.name


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_can_be_shown(measure, name):
    from posnmt.evaluation.show.collect import attentions

    part = tiny._alone(name)
    model, translator, positions = measure(part)
    shown = Shown("mine", 0, "", positions, [Sentence(1, attentions(translator, "mo ra", "ti"))])
    sections = {section.name: section for section in Page([shown], Lines("", [1], ["a"], ["b"]), []).sections()}
    expected = {section for section, schemes in HAS.items() if name in schemes}
    assert set(sections) == {"words", "attention-by-distance", *expected}
    names = [chart.name for section in sections.values() for chart in section.charts]
    assert len(names) == len(set(names))
    for section in sections.values():
        for chart in section.charts:
            values = [value for _, curve in chart.columns() for value in curve.values]
            assert any(value is not None for value in values), chart.name
            assert all(len(curve.values) == len(chart.labels) for _, curve in chart.columns())
            assert chart.alternative.count(". Its data are in ") == 1
    assert stacks(model.config)["encoder.position"].heads == 4


def test_the_api_has_the_same_values(runs):
    model = posnmt.load(runs / "recurrent")
    sources, targets = (
        (runs / "corpus" / f"dev.{side}").read_text(encoding="utf-8").splitlines()[:3] for side in ("source", "target")
    )
    positions = model.positions([*sources, ""], [*targets, ""], length=10)
    assert isinstance(positions, posnmt.Positions)
    assert (positions.lines, positions.length) == (3, 10)
    assert positions.encoder.bias.bias.shape == (1, 2, 19)
    assert positions.encoder.trained.lengths is not None, "the store is here"
    assert positions.encoder.trained.longest == positions.encoder.trained.lengths.max()
    own = model.positions(sources)
    translated = model.positions(sources, model.translate(sources))
    np.testing.assert_array_equal(own.decoder.attention.values, translated.decoder.attention.values)
    assert own.length == max(32, 2 * max(own.encoder.trained.longest, own.decoder.trained.longest))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.positions("a line"), "sources is one string"),
        (lambda model: model.positions([" "]), r"no line with text to look at \(sources\)"),
        (lambda model: model.positions(["a"], ["b", "c"]), "1 lines of sources have 2 translations"),
        (lambda model: model.positions(["a"], ["b"], length=1), "at least 2 positions"),
    ],
)
def test_faults_are_user_errors(runs, call, message):
    with pytest.raises(posnmt.UserError, match=message):
        call(posnmt.load(runs / "counting"))
