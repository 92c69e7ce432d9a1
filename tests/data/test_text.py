"""From text to ids and back."""

import io
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

from posnmt.base.errors import UserError
from posnmt.config.schema import Subword
from posnmt.data import subword as subword_module
from posnmt.data.subword import BOS, EOS, PAD, UNK, Reservoir, Subwords
from posnmt.data.text import SideText, TextPipeline
from posnmt.data.tokenise import TruecaseLearner, Truecaser, Words

ALPHABET = "abcdefghijklmnopqrstuvwxyzäöüß0123456789.,;:!?'\"<>&|@#()-"
SENTENCES = [f"the {ALPHABET[i:]} cat {ALPHABET[:i]} sat on mat {i} {ALPHABET}" for i in range(len(ALPHABET))]


def learned(vocabulary: int = 150, kind: str = "bpe", sentences: list[str] = SENTENCES) -> Subwords:
    return Subwords.learn(sentences, Subword(type=kind, vocabulary=vocabulary), "source")


SUBWORDS = learned()


def normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


@given(st.lists(st.text(st.sampled_from(ALPHABET + " \u3000\u2028"))))
def test_text_to_ids_and_back_is_its_normalised_form(texts: list[str]) -> None:
    side = TextPipeline(SideText(Words("en"), SUBWORDS), SideText(Words("de"), SUBWORDS)).source
    assert side.decode(side.encode(texts)) == [normalised(text) for text in texts]


@given(st.text())
def test_any_text_has_ids_within_the_vocabulary_and_no_special_ones(text: str) -> None:
    (ids,) = SUBWORDS.encode([text])
    assert all(0 <= index < len(SUBWORDS) for index in ids)
    assert not {PAD, BOS, EOS} & set(ids)


# Signs that normalisation makes others of, or nothing, or blanks; SentencePiece's own mark for a blank; other blanks.
ODD = [*"¨\u0301\u0308ﬁ½℀Å\u2581\u200b\u00ad\ufeff猫犬", "\u3000", "\u00a0", "\u2028", "\x85", "\x1c", "\t", " ", "  "]
ODD_TEXT = st.lists(
    st.sampled_from([*ODD, *ALPHABET, " ", "the", " cat", "mat "]) | st.characters(codec="utf-8"), max_size=30
)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("normalisation", ["nmt_nfkc", "nfkc", "identity"])
def test_words_that_are_remembered_are_encoded_as_texts_are(
    kind: str, normalisation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Subword(type=kind, vocabulary=120, normalisation=normalisation)
    subwords = Subwords.learn(SENTENCES, settings, "source")
    monkeypatch.setattr(subword_module, "REMEMBERED", 2000)

    @given(st.lists(ODD_TEXT.map("".join), max_size=8))
    def check(texts: list[str]) -> None:
        # the second time the words are known, the whole is one call, and much stands in it twice
        for some in (texts, texts, [*texts, *texts, *texts]):
            ids, lengths = subwords.encode_flat(some)
            rows = np.split(ids, np.cumsum(lengths)[:-1]) if len(some) else []
            assert [row.tolist() for row in rows] == subwords.encode(some)
            assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)

    check()
    assert bool(subwords._words) is (kind == "bpe"), "of unigram no word stands alone"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_four_entries_more_than_the_vocabulary(kind: str) -> None:
    subwords = learned(120, kind)
    assert len(subwords) == len(subwords.pieces) == 124
    assert [subwords.pieces[index] for index in (PAD, UNK, BOS, EOS)] == ["<pad>", "<unk>", "<s>", "</s>"]


def test_special_symbols_leave_no_trace_and_cannot_be_written_into_the_text() -> None:
    (ids,) = SUBWORDS.encode(["the cat"])
    assert SUBWORDS.decode([[BOS, *ids, EOS, PAD, PAD], []]) == ["the cat", ""]
    assert not {PAD, BOS, EOS} & set(SUBWORDS.encode(["</s> <s> <pad>"])[0])


def test_unknown_characters() -> None:
    assert UNK in SUBWORDS.encode(["the 猫"])[0]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_vocabulary_too_large_names_the_largest_which_then_works(kind: str) -> None:
    few = ["the cat sat on the mat", "a dog sat on the cat"]
    with pytest.raises(UserError, match=r"subword\.vocabulary: 5000 is too large .* at most (\d+)") as raised:
        learned(5000, kind, few)
    assert raised.value.todo is not None
    largest = int(raised.value.todo.split()[3])
    assert len(learned(largest, kind, few)) == largest + 4
    with pytest.raises(UserError, match="too large"):
        learned(largest + 1, kind, few)


def test_vocabulary_too_small_names_the_smallest_which_then_works() -> None:
    with pytest.raises(UserError, match=r"subword\.vocabulary: 5 is too small") as raised:
        learned(5)
    assert raised.value.todo is not None
    smallest = int(raised.value.todo.split()[3])
    assert len(learned(smallest)) == smallest + 4
    with pytest.raises(UserError, match="too small"):
        learned(smallest - 1)


def test_a_very_long_line_is_learned_from() -> None:
    subwords = learned(100, sentences=[*SENTENCES, "猫" * 3000])
    assert UNK not in subwords.encode(["猫"])[0]


def test_a_line_with_a_reserved_character_is_learned_from() -> None:
    subwords = learned(100, sentences=[*SENTENCES, "猫 ▅"])
    assert UNK not in subwords.encode(["猫"])[0]


def test_marks_of_special_entries_in_the_text_are_learned_from() -> None:
    """Their signs occur nowhere else."""
    marks = "<s> </s> <unk> <pad>"
    subwords = learned(45, sentences=["the cat sat on the mat unk pad s"] * 9 + [marks])
    [ids] = subwords.encode([marks])
    assert UNK not in ids
    assert subwords.decode([ids]) == [marks]


def test_bytes_that_spell_a_line_break_are_decoded_as_a_blank() -> None:
    """Models from elsewhere have subwords of single bytes."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, model_type="bpe", vocab_size=400, byte_fallback=True,
        pad_id=PAD, unk_id=UNK, bos_id=BOS, eos_id=EOS, minloglevel=2,
    )  # fmt: skip
    subwords = Subwords(model.getvalue())
    cat = subwords.encode(["cat"])[0]
    for byte in ("<0x0A>", "<0x0D>", "<0x00>"):
        assert subwords.decode([[*cat, subwords.pieces.index(byte), *cat]]) == ["cat  cat"]


def test_text_of_invisible_characters_has_no_subwords() -> None:
    for side in (SideText(Words("en"), SUBWORDS), SideText(Words("en"), SUBWORDS, "<2de>")):
        assert side.encode(["\u200b", "\x01", "\u00ad\u200d", " \u202b"]) == [[], [], [], []]


def test_moses_round_trip_escapes_nothing() -> None:
    words = Words("en", "moses")
    text = 'He said: "AT&T isn\'t a <tag> | 5.4% (e.g. Mr. Smith)..."'
    tokens = words.split(text)
    assert tokens.startswith('He said : " AT & T is')
    assert "&amp;" not in tokens
    assert words.join(words.split("Hello, world (again)!")) == "Hello, world (again)!"
    assert words.join(words.split("AT&amp;T")) == "AT & amp; T"


def test_truecasing_is_learned_from_inside_sentences_and_undone() -> None:
    learner = TruecaseLearner()
    for line in ("I saw the house in Paris .", "Well , the house is old .", "He met Polish people who polish shoes ."):
        learner.add(line)
    words = Words("en", "moses", truecaser=learner.truecaser())
    assert words.split("The house in PARIS. House!") == "the house in Paris . house !"
    assert words.split("They Polish it; they polish it.") == "They Polish it ; they polish it ."
    assert words.join("the house in Paris .") == "The house in Paris."


def test_truecaser_survives_saving(tmp_path: Path) -> None:
    Truecaser({"house": "house", "über": "über"}, ["House"]).save(tmp_path / "model.json")
    assert Truecaser.load(tmp_path / "model.json").truecase("Über house") == "über house"
    (tmp_path / "model.json").write_text("[]")
    with pytest.raises(UserError, match="truecasing model is damaged"):
        Truecaser.load(tmp_path / "model.json")


@pytest.mark.parametrize("shared", [True, False])
def test_pipeline_survives_saving(tmp_path: Path, shared: bool) -> None:
    other = SUBWORDS if shared else learned(110, "unigram")
    truecaser = Truecaser({"the": "the"}, [])
    pipeline = TextPipeline(
        SideText(Words("en", "moses", truecaser=truecaser), SUBWORDS),
        SideText(Words("de"), other),
    )
    pipeline.save(tmp_path / "text")
    read = TextPipeline.load(tmp_path / "text")
    texts = ["The cat sat (on the mat).", "mat?"]
    assert read.shared is shared
    assert (read.source.size, read.target.size) == (len(SUBWORDS), len(other))
    for side in ("source", "target"):
        ids = getattr(pipeline, side).encode(texts)
        assert getattr(read, side).encode(texts) == ids
        assert getattr(read, side).decode(ids) == getattr(pipeline, side).decode(ids)
    assert read.source.decode(read.source.encode(texts)) == ["The cat sat (on the mat).", "Mat?"]


def test_damaged_pipeline(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="text settings does not exist"):
        TextPipeline.load(tmp_path)
    TextPipeline(*[SideText(Words("en"), SUBWORDS)] * 2).save(tmp_path)
    (tmp_path / "source.model").write_bytes(b"nothing")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        TextPipeline.load(tmp_path)
    (tmp_path / "text.json").write_text("{}")
    with pytest.raises(UserError, match="not the settings of a text pipeline"):
        TextPipeline.load(tmp_path)


def test_reservoir_is_uniform_seeded_and_keeps_a_short_stream() -> None:
    def sample(size: int, length: int, seed: int) -> list[int]:
        reservoir: Reservoir[int] = Reservoir(size, seed)
        for item in range(length):
            reservoir.add(item)
        return reservoir.items

    assert sample(10, 5, 1) == [0, 1, 2, 3, 4]
    assert sample(10, 100, 1) == sample(10, 100, 1) != sample(10, 100, 2)
    counts = [0] * 20
    for seed in range(2000):
        for item in sample(5, 20, seed):
            counts[item] += 1
    # each of 20 items is expected 500 times, with a standard deviation of 19
    assert max(abs(count - 500) for count in counts) < 100


def test_a_bpe_vocabulary_counts_characters_and_merges() -> None:
    """R19 counts merges, `subword.vocabulary` entries: so many merges less as the text has characters."""
    sentences = [
        f"{word} {other}" for word in ("lower", "lowest", "newer", "newest") for other in ("low", "new", "wide")
    ]
    pieces = learned(30, sentences=sentences).pieces[4:]
    characters = {"\u2581", *"".join(sentences).replace(" ", "")}
    merged = [piece for piece in pieces if len(piece) > 1]
    assert len(pieces) == 30
    assert {piece for piece in pieces if len(piece) == 1} == characters
    assert len(merged) == 30 - len(characters)
    for number, piece in enumerate(merged):  # each joins two entries that were there before it
        known = {*characters, *merged[:number]}
        assert any(piece[:cut] in known and piece[cut:] in known for cut in range(1, len(piece)))
