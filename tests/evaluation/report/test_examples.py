"""The sentences that the page holds: which, with what scores, and packed so that they come out as they went in."""

import base64
import gzip
import hashlib
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from sacrebleu.metrics import BLEU, CHRF, TER

from posnmt.cli.main import main
from posnmt.data.corpus import TextFile
from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.bins import TrainedLengths
from posnmt.evaluation.analyse.inputs import Text
from posnmt.evaluation.report.embed import SCRIPTS, content_security_policy, packed, page_script
from posnmt.evaluation.report.examples import Examples
from posnmt.metrics.registry import METRICS
from tests.support.metrics_case import Scorer, texts
from tests.support.report_case import without_figures

SOURCE = ["ein", "zwei Worte", "jetzt drei Worte", "", "fünf Worte sind es hier"]
REFERENCE = ["one", "two words", "now three words", "nothing", "here it is five words"]
OUTPUT = ["one", "two word", "three words", "", "five words it is here </script>"]


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_scores_of_sentences_are_sacrebleu_s(metric):
    """BLEU of outputs that are too short for some orders, or share no word with the reference, too."""
    references, outputs = texts(120, seed=11)
    references += ["one", "one two", "", "one two three", "a b c d e"]
    outputs += ["one", "one", "one", "", "v w x y z"]
    oracle = {"bleu": BLEU(effective_order=True), "chrf": CHRF(), "ter": TER()}[metric]
    found = METRICS[metric].score(Scorer(metric, references).statistics(outputs).astype(float), sentences=True)
    expected = [
        oracle.sentence_score(*pair).score for pair in zip(outputs, [[line] for line in references], strict=True)
    ]
    assert len(set(expected)) > 20
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def example_texts():
    """Source, reference, an output, and one of a source with swapped words."""
    names = [("source", None, 0.0), ("reference", None, 0.0), ("output a", "a", 0.0), ("output a at 0.1", "a", 0.1)]
    lines = [SOURCE, REFERENCE, OUTPUT, OUTPUT[::-1]]
    return [Text(TextFile(role, None), text, *about) for (role, *about), text in zip(names, lines, strict=True)]


def examples(**options):
    statistics = {"chrf": [Scorer("chrf", REFERENCE).statistics(lines) for lines in (OUTPUT, OUTPUT[::-1])]}
    lengths = np.array([len(line.split()) for line in SOURCE])
    additive = Additive.of(statistics, [lengths, lengths], lengths)
    return Examples.of(example_texts(), lengths, additive, options.pop("trained", TrainedLengths()), **options)


def test_all_sentences_with_their_texts_and_scores():
    found = examples(trained=TrainedLengths(2, 3))
    assert found.numbers == [0, 1, 2, 3, 4]
    assert found.texts == [list(row) for row in zip(SOURCE, REFERENCE, OUTPUT, strict=True)]
    assert found.lengths == [1, 2, 3, 0, 5]
    assert found.seen == [False, True, True, False, False]
    assert examples(trained=TrainedLengths.of_trainings([(2, 3), (3, 5)])).seen == [False, None, True, False, None]
    expected = [round(100 * CHRF().sentence_score(*pair).score)
                for pair in zip(OUTPUT, [[line] for line in REFERENCE], strict=True)]  # fmt: skip
    assert found.scores == {"chrf": [expected]}
    assert not found.by_character
    assert found.languages == (None, None)
    assert examples(language="he").languages == (None, "he"), "as the user names it"


@pytest.mark.parametrize(("wanted", "numbers"), [(0, []), (1, [0]), (2, [0, 2]), (3, [0, 1, 3]), (9, [0, 1, 2, 3, 4])])
def test_some_sentences_at_equal_distances(wanted, numbers):
    found = examples(most=wanted)
    assert found.numbers == numbers
    assert found.total == 5
    assert [row[0] for row in found.texts] == [SOURCE[number] for number in numbers]
    assert len(found.scores["chrf"][0]) == len(numbers)
    assert found.seen is None


@pytest.mark.parametrize("most", [0, 1, 4, 5])
def test_what_is_packed_comes_out_again_and_closes_no_element(monkeypatch, most):
    monkeypatch.setattr("posnmt.evaluation.report.examples.PART", 2)
    found = examples(most=most)
    parts = [*found.parts([{"name": "</script>"}], [{"name": "chrf", "title": "chrF"}])]
    kept = packed(parts)
    assert re.fullmatch(r"[A-Za-z0-9+/]+=*", kept)
    assert packed(parts) == packed(["".join(parts)]) == kept
    fields = json.loads(gzip.decompress(base64.b64decode(kept)))
    assert fields["texts"] == found.texts
    assert fields["metrics"] == [{"name": "chrf", "title": "chrF", "scores": found.scores["chrf"]}]


def test_the_policy_names_the_script_in_the_page():
    script = page_script()
    assert "</script" not in script
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    assert f"script-src 'sha256-{digest}'" in content_security_policy(script)
    assert len(SCRIPTS) == len(set(SCRIPTS))


@pytest.fixture
def command(tmp_path):
    """A function: what --examples is given → the result of `posnmt analyse`, the page and results.json."""
    for name, lines in {"source": SOURCE, "reference": REFERENCE, "a": OUTPUT}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")

    def command(wanted):
        given = ["--source", "source", "--reference", "reference", "--output", "a=a", "--metrics", "chrf"]
        files = [str(tmp_path / part) if part in ("source", "reference") else part for part in given]
        files[files.index("a=a")] = f"a={tmp_path / 'a'}"
        out = tmp_path / f"out{wanted}"
        options = ["--samples", "0", "--processes", "1", "--out", str(out), "--examples", wanted]
        with without_figures():
            done = CliRunner().invoke(main, ["analyse", *files, *options])
        page, results = out / "report.html", out / "results.json"
        return done, page.read_text(encoding="utf-8") if page.exists() else "", results

    return command


def embedded(page):
    """The examples in a page, or None."""
    found = re.search(r'id="packed-examples">([^<]*)<', page)
    return json.loads(gzip.decompress(base64.b64decode(found[1]))) if found else None


def test_the_command_takes_all_some_or_no_sentences(command):
    texts_in = {wanted: embedded(command(wanted)[1]) for wanted in ("all", "2", "none")}
    assert [row[2] for row in texts_in["all"]["texts"]] == OUTPUT
    assert texts_in["2"]["numbers"] == [0, 2]
    assert texts_in["none"] is None
    _, page, results = command("none")
    assert "now three words" not in page
    kept = re.search(r'id="packed-results">([^<]*)<', page)[1]
    assert gzip.decompress(base64.b64decode(kept)) == results.read_bytes()
    assert command("all")[2].read_bytes() == results.read_bytes()
    assert page.count('type="module"') == 1


@pytest.mark.parametrize("wanted", ["some", "-1", "1.5", ""])
def test_other_numbers_of_examples_are_refused(command, wanted):
    done, page, _ = command(wanted)
    assert done.exit_code == 2
    assert (
        f"error: examples are all, none or a whole number; got {wanted!r} (--examples); for example 500" in done.output
    )
    assert page == ""


@pytest.mark.parametrize("name", ["omitted_sentences", "ter", "aligned_source_words"])
def test_scores_have_one_decimal_more_than_their_measure_shows(name):
    rows, lengths = np.array([[1, 3], [2, 3], [5, 7], [0, 1], [9, 9]]), np.arange(5)
    additive = Additive.of({name: [rows, rows]}, [lengths, lengths], lengths)
    metric = additive.metric(name)
    found = Examples.of(example_texts(), lengths, additive, TrainedLengths()).scores[name][0]
    assert found == np.rint(metric.score(rows) * 10 ** (metric.decimals + 1)).astype(int).tolist()
