"""Languages, keys, rates and texts of the server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.deploy.server import clients
from posnmt.deploy.server.clients import VARIABLE, Keys, Rate
from posnmt.deploy.server.command import is_loopback, listening
from posnmt.deploy.server.languages import (
    LANGUAGES,
    ONE_LANGUAGE,
    OTHER_SCRIPTS,
    Undecided,
    detect,
    detect_among,
    identifier,
    language_name,
    match,
    scripts_of,
)
from posnmt.deploy.server.libretranslate import routes
from posnmt.deploy.server.metrics import Metrics
from posnmt.deploy.server.models import Choice, Models, choices, load
from posnmt.deploy.server.queue import Job, Queue
from posnmt.deploy.server.refusal import Refusal, later
from posnmt.deploy.server.service import Service, Translated
from posnmt.deploy.server.settings import Settings
from posnmt.deploy.server.text import join, split
from posnmt.run.run import EXPORTED
from posnmt.translate.requests import Search, numbered
from tests.support.commands import run
from tests.support.shared import SHARED, missing
from tests.support.untrained import LEARNED, untrained


@given(st.text(alphabet="a \r\n\t"))
def test_a_text_is_its_lines_and_their_ends(text):
    lines, ends = split(text)
    assert join(lines, ends) == text
    assert len(lines) == len(ends) + 1 == text.count("\n") + 1
    assert not any("\n" in line for line in lines)
    assert split("a\r\n\nb\r")[0] == ["a", "", "b\r"]


SENTENCES = {
    "af": "Ek weet nie wat hy gister by die huis gedoen het nie.",
    "cs": "Včera jsme šli do lesa a hledali jsme houby.",
    "da": "Jeg ved ikke, hvad der skete med ham i går aftes.",
    "de": "Das ist ein kurzer Satz in deutscher Sprache.",
    "el": "καλημέρα",
    "en": "The children are playing football in front of the house.",
    "es": "No sé dónde está la estación de tren más cercana.",
    "fi": "Lapset leikkivät ulkona, vaikka sataa vettä.",
    "fr": "Bonjour tout le monde, comment allez-vous ?",
    "hu": "Nem tudom, hogy mikor indul a következő vonat.",
    "it": "Non so dove sia la stazione più vicina.",
    "ja": "今日は良い天気です",
    "ko": "안녕하세요",
    "nl": "Ik weet niet waar het dichtstbijzijnde station is.",
    "pl": "Nie wiem, gdzie jest najbliższa stacja kolejowa.",
    "pt": "Não sei onde fica a estação de comboios mais próxima.",
    "ru": "Это предложение на русском языке.",
    "sv": "Jag vet inte var närmaste järnvägsstation ligger.",
    "th": "วันนี้อากาศดี",
    "tr": "En yakın tren istasyonunun nerede olduğunu bilmiyorum.",
    "uk": "Я не знаю, де знаходиться найближча станція.",
    "zh": "今天天气很好。",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_is_in_its_language_whatever_is_served(code):
    found = detect(SENTENCES[code])
    assert max(found, key=found.__getitem__) == next(iter(found)) == code
    assert found[code] > 0.5
    assert sum(found.values()) <= 1 + 1e-6
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert detect_among(SENTENCES[code], ["en", code])[0] == code


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_in_another_language_is_refused(code):
    """By a server of one language as by one of several: French is no English."""
    others = [other for other in SENTENCES if other != code]
    for codes in (["de"], ["en"], ["en", "de"], others):
        if code not in codes:
            with contextlib.suppress(Undecided):  # where it is not clear, at least the probability says so
                assert detect_among(SENTENCES[code], codes)[1] <= 0.5, codes
    with pytest.raises(Undecided, match=r"the text is in French \(fr\), not in en or de"):
        detect_among(SENTENCES["fr"], ["en", "de"])


def test_texts_that_tell_little():
    assert detect("1234 !") == detect("") == {}
    assert detect_among("1234 !", ["en"]) == ("en", 0.0)
    with pytest.raises(Undecided, match="without letters"):
        detect_among("1234 !", ["en", "de"])
    assert max(detect("ok").values()) < 0.05
    assert detect_among("ok", ["de"])[1] < 0.05


def test_the_script_leaves_languages_out():
    """py3langid takes some lines with kana for Chinese; letters of another script in a sentence change nothing."""
    assert list(detect("ひらがな")) == ["ja"]
    assert "zh" not in detect("東京都は日本の首都である")
    assert {"en", "ru"} & set(detect("Как установить Linux")) == {"ru"}
    assert {"sr", "en", "ru"} & set(detect("Здраво свима")) == {"sr", "ru"}
    assert "sr" in detect("Zdravo svima")
    assert detect_among("重要文化財", ["ja"])[0] == "ja"  # as in a heading; by its letters alone it may be Chinese


OF_NO_LANGUAGE = {
    "Cherokee": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
    "Tifinagh": "ⵜⴰⵎⴰⵣⵉⵖⵜ",
    "Canadian Aboriginal": "ᐃᓄᒃᑎᑐᑦ",
    "hieroglyphic": "𓀀𓂀𓃠",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ",
    "Tagalog": "ᜊᜌ᜔ᜊᜌᜒᜈ᜔",  # Baybayin
    "Thaana": "ދިވެހި",
}


@pytest.mark.parametrize("script", OF_NO_LANGUAGE)
def test_a_text_in_the_script_of_no_known_language_is_in_none(script):
    for text in (OF_NO_LANGUAGE[script], f"{OF_NO_LANGUAGE[script]} K"):  # a name in Latin letters changes nothing
        assert detect(text) == {}
        for codes in (["en"], ["zh"], ["am", "ja", "en"]):
            with pytest.raises(Undecided, match=f"the text is in {script} script, which is not that of {codes[0]}"):
                detect_among(text, codes)


def test_every_script_of_unicode_is_that_of_a_language_or_of_none():
    """A text of one letter is never in a language that is not written in its script."""
    first = {}
    for number in range(0x20000):
        if chr(number).isalpha() and unicodedata.is_normalized("NFKC", chr(number)):
            first.setdefault(next(iter(scripts_of(chr(number)))), chr(number))
    assert len(first) > 100
    latin = set(identifier().labels) - {*LANGUAGES, *OTHER_SCRIPTS, *ONE_LANGUAGE, "zxx"}
    for script, letter in first.items():
        written = {code for code, (_, scripts) in LANGUAGES.items() if script in scripts}
        written |= {code for code, scripts in OTHER_SCRIPTS.items() if script in scripts}
        assert set(detect(letter)) <= (written | latin if script == "LATIN" else written), script


@pytest.mark.parametrize(
    ("wide", "usual"),
    [("ＨＥＬＬＯ ＷＯＲＬＤ", "HELLO WORLD"), ("ｶﾀｶﾅ", "カタカナ"), ("𝐇𝐞𝐥𝐥𝐨", "Hello"), ("ﻢﺮﺤﺑﺍ", "مرحبا")],
)
def test_letters_in_other_forms_are_letters(wide, usual):
    assert list(detect(wide)) == list(detect(usual)) != []


def test_a_language_is_named_only_where_it_is_clear():
    for text, script in (("Привет", "Cyrillic"), ("אַ גוטן טאָג, ווי גייט עס", "Hebrew")):
        with pytest.raises(Undecided, match=f"^the text is in {script} script, which is not that of en or de; name"):
            detect_among(text, ["en", "de"])
    for code, sentence in SENTENCES.items():
        with contextlib.suppress(Undecided):
            detect_among(sentence, ["eu", "ka"])
            continue
        with pytest.raises(Undecided) as refused:
            detect_among(sentence, ["eu", "ka"])
        named = f"({code})" in str(refused.value)
        assert named == (detect(sentence)[code] >= 0.9)
        assert "cannot be detected" not in str(refused.value)


def test_codes_of_the_same_language():
    assert detect_among(SENTENCES["ru"], ["eng", "rus_Cyrl"])[0] == "rus_Cyrl"
    norwegian = "Jeg vet ikke hvor nærmeste togstasjon er, men vi kan spørre noen."
    assert detect_among(norwegian, ["en", "nb"])[0] == "nb"
    assert detect_among(SENTENCES["zh"], ["en", "zh-Hant"])[0] == "zh-Hant"


def test_languages_that_the_detector_does_not_know():
    assert detect_among("Hello", ["xx"]) == ("xx", 0.0)
    assert detect_among(SENTENCES["fr"], ["fr", "xx"])[0] == "fr"
    with pytest.raises(Undecided, match="the detector does not know xx"):
        detect_among("Hello", ["en", "xx"])


@pytest.mark.parametrize(
    ("file", "code", "right"),
    [
        ("ende_multi30k/test2016_flickr.de", "de", 0.99),
        ("ende_multi30k/test2016_flickr.en", "en", 0.98),
        ("multi_ntrex_flores/ntrex.zh", "zh", 0.98),
        ("multi_ntrex_flores/ntrex.ja", "ja", 0.99),
    ],
)
def test_lines_of_real_corpora(file, code, right):
    path = SHARED / file
    if not path.exists():
        pytest.skip(missing(file))
    lines = path.read_text(encoding="utf-8").split("\n")[:300]
    found = [next(iter(detect(line)), None) for line in lines]
    assert found.count(code) >= right * len(lines)


def test_every_language_has_a_script():
    assert all(code == code.lower() and name and scripts for code, (name, scripts) in LANGUAGES.items())
    assert (language_name("pt-BR"), language_name("xx")) == ("Portuguese", "xx")


def test_codes_are_found_in_any_case_and_without_region():
    codes = ["en", "pt-BR", "pt", "zh_Hans"]
    assert match("EN-US", codes) == "en"
    assert match("PT", codes) == "pt"
    assert match("pt-br", codes) == "pt-BR"
    assert match("PT-PT", codes) == "pt-BR"
    assert match("ZH-HANS", codes) == "zh_Hans"
    assert match("fr", codes) is None


def test_codes_of_three_letters_are_those_of_two():
    """As in the marks of OPUS-MT's models."""
    assert match("DE", ["fra", "deu_Latn"]) == "deu_Latn"
    assert match("eng", ["en-GB"]) == "en-GB"
    assert language_name("deu") == "German"


def test_a_folder_may_have_an_equals_sign(tmp_path):
    (tmp_path / "rate=1").mkdir()
    folder = tmp_path / "rate=1"
    assert choices([str(folder), f"a={folder}"], []) == [Choice("rate=1", folder), Choice("a", folder)]


def test_what_is_to_be_served():
    assert choices(["runs/mine"], []) == [Choice("mine", Path("runs/mine"))]
    assert choices(["a=x", "b=y"], ["b=en-de"]) == [Choice("a", Path("x")), Choice("b", Path("y"), ("en", "de"))]
    assert choices(["x"], ["pt-BR:en"])[0].languages == ("pt-BR", "en")


@pytest.mark.parametrize(
    ("models", "languages", "message"),
    [
        (["a/x", "b/x"], [], "two models are called 'x'"),
        (["a=x", "b=y"], ["en-de"], "there are several models.*one of a, b"),
        (["x"], ["y=en-de"], "no model is called 'y'"),
        (["x"], ["en"], "SOURCE-TARGET"),
        (["x"], ["pt-BR-en"], "SOURCE-TARGET"),
        (["x"], ["en->>deu<<"], "SOURCE-TARGET .*the language of a tag"),
        (["x"], ["en:<2de>"], "SOURCE-TARGET .*the language of a tag"),
    ],
)
def test_what_cannot_be_served(models, languages, message):
    with pytest.raises(UserError, match=message):
        choices(models, languages)


def configured(folder, **decode):
    """An untrained run with settings of search, which CTranslate2 cannot express."""
    path = untrained(folder, "recurrent") / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "decode": decode}))
    return Choice("mine", folder)


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_lines_of_requests_are_translated_each_alone(engine, tmp_path, capsys):
    choice = configured(tmp_path / "run", join=2)
    model = load(choice, engine, "model", {}, Settings(), Metrics())
    assert model.decode.join == 1
    assert "lines together" not in capsys.readouterr().err
    assert load(choice, engine, "model", {"beam": 3}, Settings(), Metrics()).decode.beam == 3


@pytest.mark.parametrize("engine", ["torch", "auto", "ctranslate2"])
def test_samples_are_not_served(engine, tmp_path):
    choice = configured(tmp_path / "run", sampling={"seed": 2})
    with pytest.raises(UserError, match=r"^not available with a server: .* \(decode\.sampling\)"):
        load(choice, engine, "model", {}, Settings(), Metrics())


def test_what_an_exported_model_cannot_do_is_refused_at_the_start(tmp_path):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")
    run("export", LEARNED, "--format", "ctranslate2", "--out", tmp_path / "model")
    path = tmp_path / "model" / EXPORTED
    path.write_text(json.dumps({**json.loads(path.read_text()), "decode": {"min_length": 3, "join": 2}}))
    with pytest.raises(UserError, match=r"^not available with CTranslate2 here \(decode\.min_length\)"):
        load(Choice("mine", tmp_path / "model"), None, "model", {}, Settings(), Metrics())
    assert load(Choice("mine", tmp_path / "model"), None, "model", {"min_length": 0}, Settings(), Metrics())


def test_keys_of_a_file_and_of_the_environment(tmp_path, monkeypatch):
    (tmp_path / "keys").write_text("# ours\nabc alice  of Ghent\n\ndef\n")
    monkeypatch.setenv(VARIABLE, "ghi, jkl")
    keys = Keys.read(tmp_path / "keys")
    assert [keys.owner(key) for key in ("abc", "def", "ghi", "jkl")] == ["alice  of Ghent", "line 4", "key 1", "key 2"]
    assert [keys.owner(key) for key in ("", None, "ab", "# ours", "\udc80")] == [None] * 5
    monkeypatch.delenv(VARIABLE)
    assert not Keys.read(None)
    (tmp_path / "none").write_text("# nobody\n")
    with pytest.raises(UserError, match="the file has no API key"):
        Keys.read(tmp_path / "none")
    with pytest.raises(UserError, match="does not exist"):
        Keys.read(tmp_path / "absent")


def test_a_byte_order_mark_is_not_part_of_a_key(tmp_path):
    (tmp_path / "keys").write_text("abc alice\n", encoding="utf-8-sig")
    assert Keys.read(tmp_path / "keys").owner("abc") == "alice"


def test_a_file_of_keys_that_is_not_utf_8_is_named_with_its_line(tmp_path):
    (tmp_path / "keys").write_bytes(b"abc alice\ndef Andr\xe9\n")
    with pytest.raises(UserError, match=r"not valid UTF-8: .*keys:2\)"):
        Keys.read(tmp_path / "keys")


@pytest.mark.parametrize("host", [".foo", "a..b", "x" * 64])
def test_a_host_that_is_no_name_is_refused(host):
    with pytest.raises(UserError, match="the host has no address: not a host name"), listening(host, 0):
        pass


@pytest.mark.parametrize(("host", "private"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_who_reaches_a_server(host, private):
    with listening(host, 0) as listener:
        assert is_loopback(listener) is private


def test_the_first_of_two_models_for_the_same_languages_answers():
    languages = {"first": ("en", "de"), "second": ("en", "de"), "other": ("fr", "de"), "third": ("en", "fr")}
    models = Models([SimpleNamespace(name=name, source=one, target=two) for name, (one, two) in languages.items()])
    assert models.between("en-US", "de").name == "first"
    assert (models.between("fr", "de").name, models.between("en", "fr").name) == ("other", "third")
    assert models.between("fr", "fr") is None
    assert (models.sources_of("de"), models.targets_of("en")) == (["en", "fr"], ["de", "fr"])


def test_a_server_whose_thread_has_ended_cannot_translate():
    thread = threading.Thread()
    service = SimpleNamespace(models=SimpleNamespace(all=[SimpleNamespace(worker=thread)]))
    [health] = [each.endpoint for each in routes(service).routes if each.path == "/health"]
    thread.start()
    thread.join()
    assert asyncio.run(health()).status_code == 503


def test_alternatives_are_others_than_the_best():
    """Where a line has fewer translations, the best stands in for those that it lacks."""
    lines = [SimpleNamespace(texts=["a", "b", "c"], text="a"), SimpleNamespace(texts=["d"], text="d")]
    assert Translated(lines, ["\n"]).alternatives(5) == ["b\nd", "c\nd"]
    assert Translated(lines[1:], []).alternatives(2) == []


def test_when_a_request_may_be_sent_again():
    assert [later("too much", seconds).headers["Retry-After"] for seconds in (0.01, 0.6, 7.4)] == ["1", "1", "7"]


def test_characters_that_a_full_queue_refuses_do_not_count_for_the_rate():
    waiting = Queue(limit=100, patience=30.0, batch=1000)
    waiting.add(Job(numbered(["x" * 80]), Search(Decode())))
    service = Service(None, Keys({}), Settings(rate_characters=100))

    def ask():
        asyncio.run(service.translate(None, "client", SimpleNamespace(queue=waiting), ["x" * 60], Search(Decode())))

    for _ in range(2):
        with pytest.raises(Refusal, match="as much work as it can do"):
            ask()


def test_a_rate_is_of_each_client_and_refills():
    now = [0.0]
    rate = Rate(60, lambda: now[0])
    assert [rate.wait("a") for _ in range(60)] == [0.0] * 60
    assert (rate.wait("a"), rate.wait("b")) == (1, 0.0)
    now[0] = 10.0
    assert [rate.wait("a") for _ in range(11)] == [0.0] * 10 + [1]
    assert rate.wait("a", 30) == 30
    now[0] = 100.0
    assert rate.wait("a", 100) == 0.0  # more than a minute's at once, after a minute's rest
    assert rate.wait("a") == 41
    assert Rate(None).wait("a", 10**9) == 0.0


def test_a_rate_remembers_a_bounded_number_of_clients(monkeypatch):
    monkeypatch.setattr(clients, "MOST_CLIENTS", 3)
    rate = Rate(1, lambda: 0.0)
    assert [rate.wait(name) for name in "abca"] == [0.0, 0.0, 0.0, 60]
    assert rate.wait("d") == 0.0  # b is forgotten, which asked longest ago
    assert (rate.wait("a"), rate.wait("b")) == (60, 0.0)
