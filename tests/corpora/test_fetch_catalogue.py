"""The catalogue against what sacreBLEU and mtdata know; mtdata's entries as ours; the recipes' corpora."""

import json

import pytest
from click.testing import CliRunner
from sacrebleu.dataset import DATASETS

from posnmt.base.errors import UserError
from posnmt.base.programs import found
from posnmt.cli.main import main
from posnmt.corpora.catalogue import by_mtdata, catalogue, entry
from posnmt.corpora.mtdata import as_remote, look_up
from posnmt.corpora.spec import Remote, TestSet

NO_MTDATA = pytest.mark.skipif(
    found("mtdata") is None, reason="mtdata is not installed: it wants other versions than constraints.txt has"
)
# Lines of mtdata 0.5.1's index, shortened to what is read.
INDEX = {
    "Statmt-europarl-10-deu-eng": {
        "url": "http://www.statmt.org/europarl/v10/training/europarl-v10.de-en.tsv.gz",
        "ext": "tsv.gz",
        "meta": {"fields": {"source": 0, "target": 1, "doc_id": 2, "para_id": 3}},
    },
    "Tilde-rapid-2016-deu-eng": {
        "url": "https://tilde-model.s3-eu-west-1.amazonaws.com/rapid2016.de-en.tmx.zip",
        "ext": "zip", "in_paths": ["*.tmx"], "in_ext": "tmx",
    },
    "OPUS-unpc-v1.0-eng-zho": {
        "url": "https://object.pouta.csc.fi/OPUS-UNPC/v1.0/moses/en-zh.txt.zip",
        "ext": "zip", "in_paths": ["*.en", "*.zh"], "in_ext": "txt",
    },
    "StanfordNLP-wmt14_train-1-eng-deu": {
        "url": ["https://nlp.stanford.edu/a/train.en", "https://nlp.stanford.edu/a/train.de"], "ext": "txt",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", catalogue())
def test_entries(name):
    one = entry(name)
    assert name.endswith("-".join(one.pair))
    assert one.papers or name.startswith(("multi30k", "small-parallel"))
    match one.corpus:
        case TestSet(sacrebleu=known, pair=pair):
            assert (pair or "-".join(one.pair)) in DATASETS[known].langpairs
        case Remote(languages=languages):
            assert set(languages) == set(one.pair)
        case None:
            way = "give path" if one.licensed is None else f"; then `posnmt data fetch {name} --from FOLDER`"
            with pytest.raises(UserError, match=way):
                one.fetchable(name)


def test_the_test_sets_of_rosendahl_are_28_thousand_pairs():
    """R19 section 4.2: newstest2008 to 2018 without 2015 have 28k pairs, joined by two 14k."""
    years = [year for year in range(2008, 2019) if year != 2015]
    assert sum(entry(f"newstest{year}-de-en").pairs for year in years) == 28_075


def test_no_two_entries_are_one_corpus_of_mtdata():
    known = [one.mtdata for one in catalogue().values() if one.mtdata]
    assert len(set(known)) == len(known)
    assert by_mtdata("Statmt-europarl-7-deu-eng") == "europarl-v7-de-en"
    assert by_mtdata("Statmt-europarl-99-deu-eng") is None


@pytest.mark.parametrize(
    ("identifier", "kind", "languages", "members"),
    [
        ("Statmt-europarl-10-deu-eng", "tsv", ("de", "en"), []),
        ("Tilde-rapid-2016-deu-eng", "tmx", ("de", "en"), ["*.tmx"]),
        ("OPUS-unpc-v1.0-eng-zho", "text", ("en", "zh"), ["*.en", "*.zh"]),
        ("StanfordNLP-wmt14_train-1-eng-deu", "text", ("en", "de"), []),
    ],
)
def test_entries_of_mtdata(identifier, kind, languages, members):
    remote = as_remote({"did": identifier, **INDEX[identifier]})
    assert (remote.kind, remote.languages, remote.members) == (kind, languages, members)
    assert remote.documents == (2 if "europarl-10" in identifier else None)


@pytest.mark.parametrize(
    "one",
    [
        {
            "did": "Statmt-newstest-2012-deu-eng",
            "url": "http://h/x.tgz",
            "ext": "tgz",
            "in_ext": "sgm",
            "in_paths": ["a"],
        },
        {"did": "Statmt-news_crawl-2012-deu", "url": "http://h/x.gz", "ext": "gz", "in_ext": "txt"},
    ],
)
def test_what_is_not_read_of_mtdata(one):
    with pytest.raises(UserError, match=r"in a supported format .*; for a test set, see sacrebleu"):
        as_remote(one)


def test_without_mtdata_the_catalogue_is_enough_and_the_rest_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(UserError, match=r"mtdata, which may have it, is not installed; pip install 'posnmt\[data\]'"):
        look_up("Statmt-europarl-10-deu-eng", tmp_path, print)


@NO_MTDATA
def test_the_index_of_mtdata_itself(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    found = look_up("Statmt-europarl-10-deu-eng", cache, print)
    assert found == as_remote({"did": "Statmt-europarl-10-deu-eng", **INDEX["Statmt-europarl-10-deu-eng"]})
    for name, one in catalogue().items():
        if one.mtdata is not None:
            theirs = look_up(one.mtdata, cache, print)
            assert [url.split("//")[1] for url in theirs.urls] == [url.split("//")[1] for url in one.corpus.urls], name
            for key in ("members", "kind", "columns", "languages"):
                assert getattr(theirs, key) == getattr(one.corpus, key), name
    with pytest.raises(UserError, match="did you mean 'Statmt-europarl-"):
        look_up("Statmt-europarll-10-deu-eng", cache, print)


def test_the_list():
    done = CliRunner().invoke(main, ["data", "list"])
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(catalogue())
    some = CliRunner().invoke(main, ["data", "list", "zh-en", "--json"])
    assert all(one["pair"] == ["zh", "en"] for one in json.loads(some.stdout).values())
    papers = [CliRunner().invoke(main, ["data", "list", word, "--json"]).stdout for word in ("R19", "r19")]
    assert papers[0] == papers[1]
    assert 0 < len(json.loads(papers[0])) < len(catalogue())
