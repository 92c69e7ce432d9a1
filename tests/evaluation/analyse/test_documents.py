"""Document ids of an analysis: resampling draws whole documents, and files that are no such ids are refused."""

import numpy as np
import pytest

import posnmt
from posnmt.base.errors import UserErrors
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.resample import bootstrap_sums, half_sums
from posnmt.evaluation.analyse.settings import Settings
from tests.support.report_case import noisy, sentences

DOCUMENTS = np.array([4, 4, 9, 9, 9, 0, 4])


@pytest.mark.parametrize(
    "drawn",
    [
        lambda rows: np.concatenate(list(bootstrap_sums(rows, DOCUMENTS % 2, 2, 60, 3, documents=DOCUMENTS)))[:, 0],
        lambda rows: np.concatenate(list(half_sums(rows, 60, 3, documents=DOCUMENTS))),
    ],
    ids=["bootstrap", "halves"],
)
def test_sentences_of_a_document_are_drawn_together(drawn):
    weights = drawn(np.eye(7)[:, None, :])[:, 0]
    of_documents = {number: weights[:, number == DOCUMENTS] for number in np.unique(DOCUMENTS).tolist()}
    for each in of_documents.values():
        assert (each == each[:, :1]).all()
    first = np.stack([each[:, 0] for each in of_documents.values()])
    assert len(np.unique(first.T, axis=0)) > 5


def test_as_many_documents_are_drawn_as_there_are():
    """And not as many as the largest number says."""
    [*sums] = bootstrap_sums(np.eye(7)[:, None, :], np.zeros(7, int), 1, 50, 3, documents=DOCUMENTS)
    weights = np.concatenate(sums)[:, 0, 0]
    assert (weights[:, [0, 2, 5]].sum(axis=1) == 3).all()


@pytest.fixture
def analysed(tmp_path):
    lines = sentences(60)
    outputs = {}
    for name, text in {"text": lines, "a": noisy(lines, 0.2, 1), "b": noisy(lines, 0.4, 2)}.items():
        outputs[name] = tmp_path / name
        outputs[name].write_text("\n".join(text) + "\n")

    def run(ids=None, **settings):
        if ids is not None:
            settings["documents"] = tmp_path / "ids"
            settings["documents"].write_text("".join(f"{each}\n" for each in ids))
        asked = Settings(**{"metrics": ["bleu"], "resampling": Resampling(100), **settings})
        return analyse(outputs["text"], outputs["text"], {name: outputs[name] for name in "ab"}, asked).results

    return run


def test_intervals_and_tests_are_over_documents(analysed):
    alone, pairs = analysed(), analysed([f"d{number // 2} {number}" for number in range(60)])
    assert pairs["systems"][0]["overall"] == alone["systems"][0]["overall"]
    assert pairs["systems"][0]["intervals"] != alone["systems"][0]["intervals"]
    for test in ("paired_bootstrap", "approximate_randomisation"):
        one, other = (each["significance"]["metrics"]["bleu"]["tests"][test]["p"] for each in (alone, pairs))
        assert one != other or one[0][1] < 0.02
    assert [each["verdict"]["by_length"]["documents"] for each in (alone, pairs)] == [None, 30]
    roles = [record["role"] for record in pairs["inputs"]]
    assert roles == ["source", "reference", "output", "output", "documents"]


@pytest.mark.parametrize(
    ("ids", "place", "what"),
    [
        (["a"] * 59, "ids", "59"),
        (["a"] * 30 + [" "] + ["b"] * 29, "ids:31", "document id"),
        (["a 1"] * 60, "ids", "same"),
    ],
)
def test_ids_that_do_not_fit_are_refused(analysed, ids, place, what):
    with pytest.raises((UserErrors, posnmt.UserError)) as caught:
        analysed(ids)
    assert place in str(caught.value)
    assert what in str(caught.value)


def test_few_documents_are_warned_of(analysed):
    few, many = (analysed([f"d{number % count}" for number in range(60)]) for count in (19, 20))
    assert [sum("19 documents" in each for each in result["warnings"]) for result in (few, many)] == [1, 0]


def test_a_baseline_that_is_no_system_is_refused(analysed):
    with pytest.raises((UserErrors, posnmt.UserError)) as caught:
        analysed(baseline="c")
    assert "choose from a, b" in str(caught.value)
    assert analysed(baseline="b")["verdict"]["by_length"]["pairs"][0]["other"] == "b"


def test_python_takes_a_list_of_ids(tmp_path):
    lines = sentences(60)
    outputs = {"a": noisy(lines, 0.2, 1), "b": noisy(lines, 0.4, 2)}
    ids = [f"d{number // 3}" for number in range(60)]
    found = posnmt.analyse(lines, lines, outputs, documents=ids, samples=100, metrics="bleu").results
    assert found["verdict"]["by_length"]["documents"] == 20
    assert "documents" in [record["path"] for record in found["inputs"]]
