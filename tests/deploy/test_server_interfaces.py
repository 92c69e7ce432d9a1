"""The interfaces of a running server, asked by the clients that people use."""

from __future__ import annotations

import json
import re
import shutil
import urllib.parse
from pathlib import Path

import deepl
import pytest
import torch
import yaml
from libretranslatepy import LibreTranslateAPI

from posnmt.deploy.server.languages import detect_among
from tests.support.commands import run
from tests.support.serving import http_request, serving, together
from tests.support.untrained import LEARNED, untrained

DEV = Path(__file__).parents[1] / "frozen" / "dev.source"
LINES = DEV.read_text().splitlines()
FRENCH = "Bonjour tout le monde, comment allez-vous ?"
LONG = "uns mebu zabi " * 60


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A trained model from English, and one with a finite position table from Russian."""
    table = untrained(tmp_path_factory.mktemp("runs") / "table", "learned", max_length=40)
    with serving(f"mine={LEARNED}", table, "--languages", "table=ru-de") as server:
        yield server


@pytest.fixture(scope="module")
def expected():
    """What `posnmt translate` writes for dev."""
    return run("translate", LEARNED, "--input", DEV)[0].splitlines()


def test_libretranslatepy(served, expected):
    client = LibreTranslateAPI(served.url)
    assert [client.translate(line, "en", "de") for line in LINES] == expected
    assert client.translate("\n".join(LINES), "en", "de") == "\n".join(expected)
    for text, code in {
        "The children are playing football in front of the house.": "en",
        "Это предложение на русском языке.": "ru",
        FRENCH: "fr",
    }.items():
        [first, *_] = client.detect(text)
        assert first["language"] == code
        assert 90 < first["confidence"] <= 100
    assert client.detect("12") == client.detect("ok") == []
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "ru", "name": "Russian", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]


def test_deepl(served, expected):
    client = deepl.DeepLClient("any key", server_url=served.url)
    before = client.get_usage().character.count
    results = client.translate_text(LINES, source_lang="EN", target_lang="DE")
    assert [each.text for each in results] == expected
    assert results[0].detected_source_lang == "EN"
    assert [each.billed_characters for each in results] == [len(line) for line in LINES]
    assert client.translate_text(LINES[0], target_lang="DE").text == expected[0]
    assert [each.code for each in client.get_source_languages()] == ["EN", "RU"]
    [target] = client.get_target_languages()
    assert (target.code, target.name, target.supports_formality) == ("DE", "German", False)
    assert client.get_usage().character.count - before == sum(map(len, LINES)) + len(LINES[0])


def test_deepl_refuses_what_it_cannot_do(served):
    client = deepl.DeepLClient("any key", server_url=served.url)
    for options, message in [
        ({"target_lang": "FR"}, "FR is not supported as a target language"),
        ({"target_lang": "DE", "source_lang": "FR"}, "FR is not supported as a source language"),
        ({"target_lang": "DE", "formality": "more"}, "formality: not supported"),
        ({"target_lang": "DE", "custom_instructions": ["be kind"]}, "custom_instructions: not supported"),
        ({"target_lang": "DE", "source_lang": "EN", "glossary": "some"}, "there is no glossary with the id 'some'"),
    ]:
        with pytest.raises(deepl.DeepLException, match=message):
            client.translate_text("lo dumo", **options)
    with pytest.raises(deepl.DeepLException, match=r"the text is in Korean \(ko\), not in en or ru"):
        client.translate_text("안녕하세요", target_lang="DE")


def test_a_form_of_deepl(served, expected):
    fields = urllib.parse.urlencode([("text", LINES[0]), ("text", LINES[1]), ("target_lang", "de")])
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    status, answer, _ = served.post("/v2/translate", data=fields.encode(), headers=headers)
    assert (status, [each["text"] for each in answer["translations"]]) == (200, expected[:2])


def test_a_form_of_curl_is_utf_8(served):
    """`curl -d` sends the bytes of a text as they are."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}

    def by_form(path, fields):
        return served.post(path, data=fields if isinstance(fields, bytes) else fields.encode(), headers=headers)[:2]

    _, answer = by_form("/translate", "q=Привет, мир.&source=auto&target=de")
    assert answer["detectedLanguage"]["language"] == "ru"
    own = {"text": "Ein Mädchen läuft.", "model": "mine"}
    assert by_form("/v1/translate", "text=Ein Mädchen+l%C3%A4uft.&model=mine") == served.post("/v1/translate", own)[:2]
    _, answer = by_form(
        "/v2/translate", "text=Ein Mädchen läuft.&source_lang=EN&target_lang=DE&show_billed_characters=1"
    )
    assert [each["billed_characters"] for each in answer["translations"]] == [len("Ein Mädchen läuft.")]
    for wrong in (b"q=M\xe4dchen", b"q=M%E4dchen"):
        status, answer = by_form("/translate", wrong + b"&source=en&target=de")
        assert (status, answer["error"]) == (400, "Invalid request: the form is not UTF-8")


def test_json_of_libretranslate(served, expected):
    query = {"q": LINES[:3], "source": "auto", "target": "de"}
    status, answer, headers = served.post("/translate", query)
    probability = detect_among("\n".join(LINES[:3]), ["en", "ru"])[1]
    detected = {"confidence": round(100 * probability, 1), "language": "en"}
    assert (status, answer) == (200, {"translatedText": expected[:3], "detectedLanguage": [detected] * 3})
    assert headers["X-Posnmt-Warning"] is None
    assert served.post("/translate", {**query, "q": LINES[0]})[1] == {
        "translatedText": expected[0],
        "detectedLanguage": {"confidence": round(100 * detect_among(LINES[0], ["en", "ru"])[1], 1), "language": "en"},
    }
    assert served.post("/translate", {"q": [], "source": "en", "target": "de"})[1] == {"translatedText": []}


def test_line_ends_and_empty_lines_stay(served, expected):
    text = f"\r\n{LINES[0]}\n\n{LINES[1]}\r\n  \n"
    answer = served.post("/translate", {"q": text, "source": "en", "target": "de"})[1]
    assert answer == {"translatedText": f"\r\n{expected[0]}\n\n{expected[1]}\r\n\n"}


def test_sentences_of_a_line_are_translated_one_by_one_unless_a_client_has_them_whole(served):
    first, second = "Uns mebu zabi.", "Bevu sipo un leri."
    text = f"{first} {second}"
    kept = ("--split", "off", "--complete", "off")
    each = [run("translate", LEARNED, *kept, stdin=line)[0].rstrip("\n") for line in (first, second, text)]
    parts, whole = " ".join(each[:2]), each[2]
    assert parts != whole
    query = {"q": text, "source": "en", "target": "de"}
    status, answer, headers = served.post("/translate", {**query, "alternatives": 2})
    assert (status, answer["translatedText"], len(answer["alternatives"])) == (200, parts, 2)
    assert "in parts" not in (headers["X-Posnmt-Warning"] or "")

    def by_deepl(**more):
        answer = served.post("/v2/translate", {"text": text, "source_lang": "EN", "target_lang": "DE", **more})[1]
        return answer["translations"][0]["text"]

    assert by_deepl() == by_deepl(split_sentences="nonewlines") == by_deepl(split_sentences=1) == parts
    assert by_deepl(split_sentences="0") == by_deepl(split_sentences=False) == whole
    own = {"text": text, "model": "mine"}
    [line] = served.post("/v1/translate", own)[1]["translations"][0]["lines"]
    assert (line["hypotheses"][0]["text"], line["hypotheses"][0]["parts"]) == (parts, 2)
    assert line["longest_part"] < line["source_subwords"]
    assert served.post("/v1/translate", {**own, "split": "off"})[1]["translations"][0]["text"] == whole


def test_alternatives(served):
    best = run("translate", LEARNED, "--beam", 4, "--nbest", 4, "--format", "jsonl", stdin=LINES[0].encode() + b"\n")[0]
    texts = [each["text"] for each in json.loads(best)["hypotheses"]]
    answer = served.post("/translate", {"q": LINES[0], "source": "en", "target": "de", "alternatives": 3})[1]
    assert [answer["translatedText"], *answer["alternatives"]] == list(dict.fromkeys(texts))
    status, answer, _ = served.post("/translate", {"q": "lo", "source": "en", "target": "de", "alternatives": 99})
    assert (status, answer) == (
        400,
        {"error": "at most 16 translations of a text, and as wide a beam, can be asked for"},
    )


def test_own_interface_has_what_jsonl_has(served):
    options = ("--beam", 3, "--nbest", 2, "--format", "jsonl")
    rows = [json.loads(line) for line in run("translate", LEARNED, "--input", DEV, *options)[0].splitlines()]
    status, answer, _ = served.post("/v1/translate", {"text": LINES, "model": "mine", "nbest": 2, "beam": 3})
    assert (status, answer["model"], answer["source"], answer["target"]) == (200, "mine", "en", "de")
    assert len(answer["translations"]) == len(rows)
    for row, text in zip(rows, answer["translations"], strict=True):
        [line] = text["lines"]
        assert line["source"] == row["source"]
        assert text["text"] == row["hypotheses"][0]["text"]
        for ours, theirs in zip(line["hypotheses"], row["hypotheses"], strict=True):
            assert ours.keys() == theirs.keys()
            exact = ("text", "subwords", "ended", "repetitive", "parts")
            assert [ours[name] for name in exact] == [theirs[name] for name in exact]
            for name in ("log_probability", "score"):
                assert ours[name] == pytest.approx(theirs[name], abs=1e-4)
            assert [pytest.approx(word, abs=1e-4) for word in _numbers(theirs["words"])] == _numbers(ours["words"])
            assert [word["text"] for word in ours["words"]] == ours["text"].split() != []


def _numbers(words):
    """What is known of words, without their text."""
    return [[word[name] for name in ("start", "end", "subwords", "probability")] for word in words]


def test_own_interface_has_the_alignments_of_jsonl(served):
    text = "\n".join(LINES[:3])
    status, answer, _ = served.post("/v1/translate", {"text": text, "model": "mine", "alignments": True})
    assert status == 200
    out, _ = run("translate", LEARNED, "--alignments", "--format", "jsonl", stdin=text)
    lines = answer["translations"][0]["lines"]
    for line, row in zip(lines, map(json.loads, out.splitlines()), strict=True):
        assert line["source_words"] == row["source_words"]
        assert [each["alignment"] for each in line["hypotheses"]] == [each["alignment"] for each in row["hypotheses"]]
        assert line["hypotheses"][0]["alignment"]
    _, without, _ = served.post("/v1/translate", {"text": text, "model": "mine"})
    assert "source_words" not in without["translations"][0]["lines"][0]
    assert "alignment" not in without["translations"][0]["lines"][0]["hypotheses"][0]


def test_own_interface_says_which_models_there_are(served):
    mine, table = served.get("/v1/models")[1]
    assert (mine["name"], mine["source"], mine["target"], mine["system"]) == ("mine", "en", "de", "relative")
    assert mine["trained"]["source"] == {"shortest": 5, "longest": 24}
    assert mine["output_limit"] == {"max_ratio": 3.0, "max_extra": 5.0}
    assert (table["name"], table["source"]) == ("table", "ru")
    assert served.post("/v1/translate", {"text": "lo dumo", "source": "EN-US", "target": "de"})[1]["model"] == "mine"


def test_lengths_beyond_the_model_are_said(served):
    status, answer, _ = served.post("/v1/translate", {"text": [LONG, LINES[0]], "model": "mine"})
    assert status == 200
    [sentence] = [each for each in answer["warnings"] if "longer" in each]
    assert sentence == "1 of 2 lines are longer than the 24 subwords of the longest training sentence"
    query = {"q": "lo", "source": "en", "target": "de"}
    limit = "1 of 1 lines reached the output limit of 3 x source + 5 subwords"
    assert served.post("/translate", query)[2]["X-Posnmt-Warning"] == limit
    assert served.post("/v2/translate", {"text": "lo", "target_lang": "de"})[2]["X-Posnmt-Warning"] == limit


def test_characters_and_spans_that_translations_lack_are_said(tmp_path):
    """By the interfaces that have no field for it in a header, and by our own in `warnings`."""
    folder = shutil.copytree(LEARNED, tmp_path / "own")
    path = folder / "config.yaml"
    tree = yaml.safe_load(path.read_text())
    tree["decode"]["protect"] = ["us"]  # which the translation of "lo" has
    path.write_text(yaml.safe_dump(tree))
    texts = ["lo", "lo \u2603", "Bevu"]
    with serving(f"own={folder}") as server:
        _, own, _ = server.post("/v1/translate", {"text": texts})
        lines = [line for each in own["translations"] for line in each["lines"]]
        answers = [
            server.post("/translate", {"q": texts, "source": "en", "target": "de"}),
            server.post("/v2/translate", {"text": texts, "source_lang": "EN", "target_lang": "DE"}),
        ]
    unknown, differing = (sum(bool(line[name]) for line in lines) for name in ("unknown", "differing"))
    assert (unknown, differing >= 1) == (1, True)
    expected = [
        f"{unknown} of 3 lines contain characters that the vocabulary lacks",
        f"{differing} of 3 lines lose, gain or change placeholders, markup, addresses or paths in their translations",
    ]
    assert own["warnings"][-2:] == expected
    for status, _, headers in answers:
        assert (status, headers["X-Posnmt-Warning"].split("; ")[-2:]) == (200, expected)


def test_a_line_longer_than_a_position_table_is_an_error(served):
    status, answer, _ = served.post("/translate", {"q": f"lo\n{LONG}", "source": "ru", "target": "de"})
    assert status == 400
    assert re.fullmatch(
        r"\d+ subwords, but this model's position table ends at 39 .*\(text:2\); shorten or split.*", answer["error"]
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/translate", b"{", 400, "the body is not JSON"),
        ("/translate", b"\xff", 400, "the body is not JSON"),
        ("/translate", b"[" * 100_000, 400, "the body is not JSON"),
        ("/translate", b"[1]", 400, "the body is not a JSON object"),
        ("/translate", b"", 400, "q: field required"),
        ("/translate", {"q": 5, "source": "en", "target": "de"}, 400, "q: "),
        ("/translate", {"q": "lo", "target": "de"}, 400, "source: field required"),
        ("/translate", {"q": "lo", "source": "fr", "target": "de"}, 400, "fr is not supported as a source language"),
        ("/translate", {"q": "lo", "source": "en", "target": "xx"}, 400, "xx is not supported as a target language"),
        ("/translate", {"q": "12", "source": "auto", "target": "de"}, 400, "the source language cannot be detected"),
        (
            "/translate",
            {"q": "a", "source": "en", "target": "de", "format": "pdf"},
            400,
            "pdf format is not supported; send text or html",
        ),
        ("/translate", {"q": "a", "source": "en", "target": "de", "alternatives": -1}, 400, "alternatives: "),
        ("/translate", {"q": "a", "source": "en", "target": "de", "alternatives": True}, 400, "alternatives: "),
        ("/v1/translate", {"text": "lo", "beam": True}, 400, "beam: input should not be a boolean"),
        ("/v1/translate", {"text": "lo", "beam": "1_0"}, 400, "beam: a number is written in the digits"),
        ("/v1/translate", {"text": "lo", "alignments": 1}, 400, "alignments: input should be a boolean"),
        ("/translate", {"q": ["lo", "a\0b"], "source": "en", "target": "de"}, 400, "a NUL character"),
        ("/translate", b'{"q": "\\ud800", "source": "en", "target": "de"}', 400, "half of a surrogate pair"),
        ("/translate", {"q": "lo", "source": "\ud800", "target": "de"}, 400, r"\ud800 is not supported as a source"),
        ("/translate", {"q": "lo", "source": "en", "target": "\ud800"}, 400, r"\ud800 is not supported as a target"),
        ("/translate", {"q": "a", "source": "en", "target": "de", "format": "\ud800"}, 400, r"\ud800 format"),
        ("/v2/translate", {"text": ["lo"], "target_lang": "\ud800"}, 400, r"\ud800 is not supported as a target"),
        (
            "/translate",
            {"q": FRENCH, "source": "auto", "target": "de"},
            400,
            "the text is in French (fr), not in en or",
        ),
        (
            "/v1/translate",
            {"text": FRENCH, "target": "de"},
            400,
            "the text is in French (fr), not in en or ru; name the source language",
        ),
        ("/v2/translate", {"text": [FRENCH], "target_lang": "DE"}, 400, "the text is in French (fr), not in en or ru"),
        ("/detect", {}, 400, "q: field required"),
        ("/nowhere", {}, 404, "Not Found"),
        ("/languages", {}, 405, "Method Not Allowed"),
        ("/v1/translate", {"text": "lo"}, 400, "one of the models mine, table"),
        (
            "/v1/translate",
            {"text": "lo", "model": "other"},
            400,
            "no model is called 'other'; choose from: mine, table",
        ),
        ("/v1/translate", {"text": "lo", "model": "mine", "nbest": 3}, 400, "nbest 3 is larger than the beam, 2"),
        ("/v1/translate", {"text": "lo", "model": "mine", "beam": 17}, 400, "at most 16 translations"),
        (
            "/v1/translate",
            {"text": "lo", "bean": 4},
            400,
            "no field is called 'bean'; choose from: text, model, source",
        ),
        ("/v2/translate", b"{", 400, "the body is not JSON"),
        ("/v2/translate", {"text": ["lo"]}, 400, "target_lang: field required"),
        ("/v2/translate", {"text": ["lo"], "target_lang": "DE", "source_lang": "xx"}, 400, "xx is not supported"),
        ("/v2/nowhere", {}, 404, "Not Found"),
        ("/translate", b"x" * 10_000_000, 413, "the request is larger than 1,048,576 bytes"),
        ("/v2/translate", b"x" * 10_000_000, 413, "the request is larger than 1,048,576 bytes"),
        ("/translate", {"q": "x" * 60_000, "source": "en", "target": "de"}, 413, "more than the 50,000 characters"),
        ("/translate", {"q": "x" * 3001, "source": "en", "target": "de"}, 413, "a line of 3,001 characters is longer"),
        ("/translate", {"q": "x\n" * 1000, "source": "en", "target": "de"}, 413, "2,000 characters in 1,001 lines"),
    ],
)
def test_errors_have_the_form_of_their_interface(served, path, body, status, message):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answered, answer, _ = served.post(path, data=data)
    assert answered == status
    key = "message" if path.startswith("/v2") else "error"
    assert list(answer) == [key]
    assert message in answer[key]
    assert "Traceback" not in served.err


def test_numbers_of_forms_are_written_in_digits(served):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    fields = "text=lo&model=mine&nbest={0}&beam={0}"
    assert served.post("/v1/translate", data=fields.format("2").encode(), headers=form)[0] == 200
    for number in ("1_0", "%D9%A2"):
        status, answer, _ = served.post("/v1/translate", data=fields.format(number).encode(), headers=form)
        assert (status, answer["error"].split(": ")[:2]) == (400, ["Invalid request", "nbest"])


def test_forms_with_files_are_refused(served):
    data = b'--x\r\nContent-Disposition: form-data; name="q"; filename="f"\r\n\r\nlo\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    status, answer, _ = served.post("/translate", data=data, headers=headers)
    assert (status, answer) == (400, {"error": "Invalid request: files are not translated here"})
    status, answer, _ = served.post("/translate", data=b"nonsense", headers={"Content-Type": "multipart/form-data"})
    assert status == 400
    assert "Invalid request: " in answer["error"]


def test_a_form_of_very_many_fields_is_refused(served):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    fields = b"source=en&target=de" + b"&q=a" * 200_000
    status, answer, _ = served.post("/translate", data=fields, headers=headers)
    assert status in (400, 413)
    assert set(answer) == {"error"}
    for count, expected in [(998, (200, None)), (999, (400, "Invalid request: more than 1,000 fields"))]:
        fields = b"source=en&target=de" + b"&q=" * count
        status, answer, _ = served.post("/translate", data=fields, headers=headers)
        assert (status, answer.get("error")) == expected


def test_a_hundred_at_once_are_answered_in_their_order(served, expected):
    def ask(number):
        chosen = [number % len(LINES), (7 * number + 3) % len(LINES), (3 * number + 1) % len(LINES)]
        query = {"q": [LINES[place] for place in chosen], "source": "en", "target": "de"}
        return served.post("/translate", query), [expected[place] for place in chosen]

    before = served.figure("posnmt_batch_lines_count"), served.figure("posnmt_lines_total")
    for (status, answer, _), right in together(100, ask):
        assert (status, answer) == (200, {"translatedText": right})
    batches = served.figure("posnmt_batch_lines_count") - before[0]
    assert served.figure("posnmt_lines_total") - before[1] == 300
    assert batches < 100  # requests were translated together
    assert served.figure("posnmt_queue_characters") == 0


def test_clients_that_send_half_a_request_disturb_nobody(served, expected):
    whole = http_request("/translate", {"q": LINES[0], "source": "en", "target": "de"})
    halves = [b"", b"POST /tra", whole[:40], whole[:-10], b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00"]
    connections = [served.connect() for _ in range(20) for _ in halves]
    try:
        for number, connection in enumerate(connections):
            connection.sendall(halves[number % len(halves)])
        answer = served.post("/translate", {"q": LINES, "source": "en", "target": "de"})[1]
        assert answer == {"translatedText": expected}
        assert connections[4].recv(100).startswith(b"HTTP/1.1 400")
        connections[3].sendall(whole[-10:])  # a slow one is served when it has ended its request
        assert connections[3].recv(100).startswith(b"HTTP/1.1 200")
    finally:
        for connection in connections:
            connection.close()
    assert "Traceback" not in served.err


def test_health_and_metrics(served):
    assert served.get("/health")[:2] == (200, {"status": "ok"})
    status, text, headers = served.get("/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert re.search(r'^posnmt_requests_total\{path="/health",status="200"\} \d', text, re.MULTILINE)
    served.get("/some/path")
    assert "/some/path" not in served.get("/metrics")[1]
    assert served.figure("process_resident_memory_bytes") > 0


def test_the_page_of_the_interface_loads_nothing_from_the_network(served):
    status, page, _ = served.get("/docs")
    assert status == 200
    places = re.findall(r'(?:href|src|url)\s*[=:]\s*["\']([^"\']+)', page)
    assert len(places) > 3
    for place in places:
        assert place.startswith("/")
        assert served.get(place)[0] == 200
    described = served.get("/openapi.json")[1]
    assert {"/translate", "/v1/translate", "/v2/translate", "/detect", "/health"} <= set(described["paths"])
    fields = described["paths"]["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"q", "source", "target", "alternatives"} <= set(fields["properties"])


def test_it_says_what_it_serves(served):
    assert served.url.startswith("http://127.0.0.1:")
    assert f"mine: en to de, PyTorch {torch.__version__}\ntable: ru to de, PyTorch {torch.__version__}\n" in served.err
    assert "warning" not in served.err.lower()
