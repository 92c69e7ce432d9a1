"""TMX from others: its document type is allowed, entities that it declares are not."""

from __future__ import annotations

import pytest

from posnmt.corpora.text import write_tmx
from posnmt.errors import UserError

UNIT = '<tu><tuv xml:lang="de"><seg>{}</seg></tuv><tuv xml:lang="en"><seg>one &amp; two</seg></tuv></tu>'


def converted(tmp_path, head, text, encoding="utf-8"):
    file, out = tmp_path / "a.tmx", [tmp_path / "de", tmp_path / "en"]
    file.write_bytes(f"{head}<tmx><body>{UNIT.format(text)}</body></tmx>".encode(encoding))
    assert write_tmx(file, ("de", "en"), out, print) == 1
    return [path.read_text() for path in out]


def test_a_document_type_is_allowed_and_not_fetched(tmp_path):
    head = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "http://localhost:9/tmx14.dtd">\n'
    assert converted(tmp_path, head, "eins &#228; zwei") == ["eins ä zwei\n", "one & two\n"]


@pytest.mark.parametrize(
    "declared",
    [
        '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">',
        '<!ENTITY b SYSTEM "file:///etc/hostname">',
        '<!ENTITY % a SYSTEM "file:///etc/hostname"> %a;',
    ],
    ids=["growing", "a file", "a parameter"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_declared_entities_are_refused(tmp_path, declared, encoding):
    head = f'<?xml version="1.0"?><!--{" " * 100_000}--><!DOCTYPE tmx [{declared}]>'
    with pytest.raises(UserError, match=r"it declares an entity, [ab], which is not safe"):
        converted(tmp_path, head, "&b;", encoding)


@pytest.mark.parametrize(
    "head", ["<!DOCTYPE tmx [", "", '<?xml version="1.0" encoding="shift_jis"?>', "<?xml encoding='x'?>"]
)
def test_what_is_not_xml(tmp_path, head):
    with pytest.raises(UserError, match="not well-formed XML"):
        converted(tmp_path, head, "<b>")
