"""DeepL's `context`, by a model that was trained with context."""

from __future__ import annotations

import pytest

import posnmt
from tests.support import corpus
from tests.support.commands import run
from tests.support.serving import serving, together


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learned a little of 20 lines, up to three together."""
    folder = tmp_path_factory.mktemp("context")
    path = corpus.memorised(folder)
    (folder / "ids").write_text("".join(f"d{line // 5}\n" for line in range(20)))
    settings = ["train.steps=100", "data.train.documents=ids", "train.context=3", "decode.max_ratio=2"]
    run("train", path, "--out", folder / "run", *(each for setting in settings for each in ("--set", setting)))
    return folder


def test_context_is_read_by_a_model_that_was_trained_with_it(trained):
    """As lines before the text: the last ones of the context, two with `train.context=3`."""
    lines = (trained / "corpus" / "dev.source").read_text().splitlines()
    model = posnmt.load(trained / "run")
    groups = [lines[start : start + 3] for start in range(0, 18, 3)]
    alone = [model.translate(group[2:])[0] for group in groups]
    of_two, of_three = ([model.translate(group[-size:], join=3)[-1] for group in groups] for size in (2, 3))
    assert len({*map(tuple, (alone, of_two, of_three))}) == 3, "the others matter"
    with serving(f"mine={trained / 'run'}") as served:
        used = served.get("/v2/usage")[1]["character_count"]

        def ask(texts, **more):
            query = {"text": texts, "source_lang": "EN", "target_lang": "DE", **more}
            status, answer, headers = served.post("/v2/translate", query)
            if status != 200:
                return status, answer["message"]
            return [each["text"] for each in answer["translations"]], headers["X-Posnmt-Warning"] or ""

        def written(number):
            *before, text = groups[number // 2]
            return ask([f"<b>{text}</b>", "<b/>", text], context="\n".join(before[number % 2 :]), tag_handling="xml")[0]

        for number, answer in enumerate(together(2 * len(groups), written)):
            text = (of_two if number % 2 else of_three)[number // 2]
            assert answer == [f"<b>{text}</b>", "<b/>", text]
        assert served.get("/v2/usage")[1]["character_count"] - used == sum(
            2 * (2 * len(group[2]) + len("<b></b><b/>")) for group in groups
        ), "the context does not count"
        [*before, text] = groups[0]
        assert ask([text], context="\n".join([lines[9], *before])) == ask([text], context="\n".join(before))
        status, message = ask([f"{text}\n" * 400], context="\n".join(before))
        assert (status, "in 1,200 lines are more than" in message) == (413, True)
        glossary = {"name": "a", "source_lang": "en", "target_lang": "de", "entries": "zzz\tzzz"}
        chosen = served.post("/v2/glossaries", glossary)[1]["glossary_id"]
        answer, warning = ask([text], context="\n".join(before), glossary_id=chosen)
        assert (answer, warning.split("; ")[0]) == (
            [alone[0]],
            "context has no effect together with a glossary or decode.mbr",
        )
