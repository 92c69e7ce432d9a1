"""Reading text files: nothing is lost, and each kind of bad input has its sentence."""

import bz2
import gzip
import io
import lzma
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.config.corpora import Corpus
from posnmt.data.corpus import Findings, Pair, TextFile, corpus_files, decode_lines, read_lines, read_pairs


def write(path: Path, content: bytes | str) -> TextFile:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return TextFile("data.train.source", path)


def faults_of(file: TextFile, accept: tuple[str, ...] = ()) -> list[str]:
    findings = Findings(accept)
    list(read_lines(file, findings))
    with pytest.raises(UserError) as raised:
        findings.raise_all()
    return raised.value.lines


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\0\ufeff", codec="utf-8")), min_size=1))
def test_every_line_comes_out_as_it_went_in(lines: list[str]) -> None:
    stream = io.BytesIO("".join(line + "\n" for line in lines).encode())
    findings = Findings(accept=["empty"], stop=True)
    assert list(decode_lines(stream, TextFile("input", Path("-")), findings)) == lines


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\v", "\f", "\x1e"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, separator: str) -> None:
    file = write(tmp_path / "text", f"a{separator}b\nc\n")
    assert list(read_lines(file, Findings(stop=True))) == [f"a{separator}b", "c"]


def test_last_line_without_line_end_is_a_line(tmp_path: Path) -> None:
    assert list(read_lines(write(tmp_path / "text", "a\nb"), Findings(stop=True))) == ["a", "b"]


@pytest.mark.parametrize(("ending", "opener"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed_files_read_like_plain_ones(tmp_path: Path, ending: str, opener) -> None:
    path = tmp_path / f"text{ending}"
    with opener(path, "wb") as stream:
        stream.write("één\nzwei\n".encode())
    assert list(read_lines(TextFile("x", path), Findings(stop=True))) == ["één", "zwei"]


@pytest.mark.parametrize(("ending", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("damage", ["cut short", "not compressed at all"])
def test_damaged_archive(tmp_path: Path, ending: str, compress, damage: str) -> None:
    whole = compress(b"a line of text\n" * 5000)
    file = write(tmp_path / f"text{ending}", whole[: len(whole) // 2] if damage == "cut short" else b"plain\n")
    (line,) = faults_of(file)
    assert line.startswith(f"data.train.source is a damaged {ending} file: ")
    assert str(file.path) in line


def test_missing_folder_and_empty(tmp_path: Path) -> None:
    missing = TextFile("data.train.source", tmp_path / "nowhere")
    assert faults_of(missing) == [f"data.train.source does not exist ({missing.path}); check the path"]
    folder = TextFile("data.train.source", tmp_path)
    assert faults_of(folder) == [f"data.train.source is a folder, not a file ({tmp_path}); name a file"]
    empty = write(tmp_path / "empty.gz", gzip.compress(b""))
    assert faults_of(empty) == [f"data.train.source is empty ({empty.path}); give a file with at least one line"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"a\n"), "it is compressed by gzip .* let its name end in .gz"),
        (lzma.compress(b"a\n"), "it is compressed by xz .* let its name end in .xz"),
        (bz2.compress(b"a\n"), "it is compressed .* unpack it, or compress it by gzip or xz"),
        ("a\n".encode("utf-16"), "it is in UTF-16 .* iconv -f UTF-16 -t UTF-8"),
        (b"PK\x03\x04\n", "it is a ZIP archive, or an office document"),
        (b"%PDF-1.7\na\n", "it is a PDF .* save its text in a plain file"),
        (b"{\\rtf1 a}\n", "it is an RTF document .* save its text in a plain file"),
        (b"\xd0\xcf\x11\xe0\n", "it is an office document .* save its text in a plain file"),
    ],
    ids=["gzip", "xz", "bzip2", "UTF-16", "zip", "PDF", "RTF", "office"],
)
def test_files_that_are_no_plain_text_are_named_as_what_they_are(tmp_path: Path, content: bytes, message: str) -> None:
    [line] = faults_of(write(tmp_path / "text", content))
    assert re.search(f"data.train.source is no plain text: {message}", line)
    assert list(read_lines(write(tmp_path / "text.GZ", gzip.compress(b"a\n")), Findings())) == ["a"]


def test_invalid_utf8_names_file_line_and_byte(tmp_path: Path) -> None:
    file = write(tmp_path / "text", "gut\nÄ und ".encode() + b"\xe9t\xe9\ngut\n\xff\n")
    assert faults_of(file) == [
        "not valid UTF-8: byte 8 of the line is 0xE9, the first of 2 such lines "
        f"({file.path}:2); save the file as UTF-8"
    ]


def test_nul_names_line_and_byte(tmp_path: Path) -> None:
    file = write(tmp_path / "text", "a\nbc\0d\n")
    (line,) = faults_of(file)
    assert line.startswith(f"a NUL character: byte 3 of the line ({file.path}:2)")


def test_empty_and_crlf_are_counted_and_say_how_to_live_with_them(tmp_path: Path) -> None:
    file = write(tmp_path / "text", "a\r\n \u3000\r\nb\n\n")
    assert faults_of(file) == [
        f"line ends in CRLF, the first of 2 such lines ({file.path}:1); "
        "convert it to LF, or remove the CR, counted: "
        "data.accept: [crlf] in the configuration, or --set 'data.accept=[crlf]'",
        f"empty line, the first of 2 such lines ({file.path}:2); "
        "fill it, or drop such pairs, counted: "
        "data.accept: [empty] in the configuration, or --set 'data.accept=[empty]'",
    ]
    accepting = Findings(accept=["empty", "crlf"])
    assert list(read_lines(file, accepting)) == ["a", " \u3000", "b", ""]
    accepting.raise_all()
    assert (accepting.count(file, "empty"), accepting.count(file, "crlf"), accepting.lines[file]) == (2, 2, 4)


def test_stopping_raises_at_the_first_fault(tmp_path: Path) -> None:
    lines = read_lines(write(tmp_path / "text", "a\n\nb\n"), Findings(stop=True))
    assert next(lines) == "a"
    with pytest.raises(UserError, match=r"^empty line \(.*:2\)"):
        next(lines)


def test_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    file = write(tmp_path / "text", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    findings = Findings(stop=True)
    assert list(read_lines(file, findings)) == ["a", "\ufeffb"]
    assert findings.count(file, "byte order mark") == 1


def pairs_of(folder: Path, **contents: str) -> tuple[list[Pair], Findings]:
    for name, content in contents.items():
        write(folder / name, content)
    findings = Findings()
    files = corpus_files(Corpus.model_validate({name: name for name in contents}), folder, "data.train")
    return list(read_pairs(files, findings)), findings


def test_pairs_with_document_ids(tmp_path: Path) -> None:
    pairs, findings = pairs_of(tmp_path, source="a\nb\nc\n", target="A\nB\nC", documents="news-1 0\n\nnews-2\t0\n")
    findings.raise_all()
    assert pairs == [Pair(1, "a", "A", "news-1"), Pair(2, "b", "B", None), Pair(3, "c", "C", "news-2")]


def test_tsv(tmp_path: Path) -> None:
    pairs, findings = pairs_of(tmp_path, tsv="a\tA\nb b\tB\tnews 1\n\nc\t\n")
    assert pairs == [
        Pair(1, "a", "A", None),
        Pair(2, "b b", "B", "news 1"),
        Pair(3, "", "", None),
        Pair(4, "c", "", None),
    ]
    with pytest.raises(UserError, match=r"^empty line, the first of 2 such lines \(.*tsv:3\)"):
        findings.raise_all()


def test_tsv_with_wrong_columns(tmp_path: Path) -> None:
    _, findings = pairs_of(tmp_path, tsv="a\tA\nb\nc\tC\t1\t2\n")
    with pytest.raises(UserError) as raised:
        findings.raise_all()
    assert raised.value.lines == [
        "wrong number of tab-separated columns: 1, not 2 or 3, the first of 2 such lines "
        f"({tmp_path / 'tsv'}:2); write source <tab> target [<tab> document id]"
    ]


def test_tsv_of_several_blocks_has_the_line_numbers_of_two_files(tmp_path: Path) -> None:
    lines = [f"{number}\n" for number in range(1, 25_001)]
    tsv = [f"{number}\t{number}\n" for number in range(1, 25_001)]
    pairs, _ = pairs_of(tmp_path, tsv="".join(tsv))
    assert pairs == pairs_of(tmp_path, source="".join(lines), target="".join(lines))[0]
    assert all(pair.source == str(pair.line) for pair in pairs)
    tsv[23_999] = "one column\n"
    pairs, findings = pairs_of(tmp_path, tsv="".join(tsv))
    assert [pair.line for pair in pairs[23_998:24_000]] == [23_999, 24_001]
    with pytest.raises(UserError, match=r"1, not 2 or 3 \(.*tsv:24000\)"):
        findings.raise_all()


@pytest.mark.parametrize(("source", "target"), [(2, 5), (7, 3)])
def test_different_line_counts_name_both_files_and_counts(tmp_path: Path, source: int, target: int) -> None:
    pairs, findings = pairs_of(tmp_path, source="a\n" * source, target="A\n" * target)
    assert len(pairs) == min(source, target)
    with pytest.raises(UserError) as raised:
        findings.raise_all()
    assert raised.value.line().startswith(
        f"different line counts: {tmp_path / 'source'} has {source}, {tmp_path / 'target'} has {target} "
    )


def test_faults_of_several_files_are_told_together(tmp_path: Path) -> None:
    _, findings = pairs_of(tmp_path, source="a\n\nb\n", target="A\r\nB\n")
    with pytest.raises(UserError) as raised:
        findings.raise_all()
    told = raised.value.lines
    assert [line.split(" (")[0].split(":")[0] for line in told] == [
        "different line counts",
        "line ends in CRLF",
        "empty line",
    ]


def test_path_with_an_unset_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSNMT_NOT_SET", raising=False)
    corpus = Corpus(source="${POSNMT_NOT_SET}/a", target="${POSNMT_NOT_SET:-b}/c")
    with pytest.raises(UserError, match=r"POSNMT_NOT_SET is not set \(data\.dev\.source\)"):
        corpus_files(corpus, tmp_path, "data.dev")
