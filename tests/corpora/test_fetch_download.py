"""Downloads from a real server on loopback: broken off, changed, refused, wrong, by two processes at once."""

import hashlib
import json
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from posnmt.base.errors import UserError
from posnmt.corpora.download import RECORD, Checksum, Downloads

DATA = random.Random(1).randbytes(3_000_000)
CHILD = """
import sys
from pathlib import Path
from posnmt.corpora.download import Downloads
print(Downloads(Path(sys.argv[1]), lambda line: print(line, file=sys.stderr), pauses=(0,)).get(sys.argv[2]))
"""


@pytest.fixture
def downloads(tmp_path, messages):
    return Downloads(tmp_path, messages.append, pauses=(0.0, 0.0), timeout=10)


def partial(path):
    return path.with_name(path.name + ".partial")


def child(cache, url):
    call = [sys.executable, "-c", CHILD, str(cache), url]
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition):
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_a_file_is_fetched_once_and_recorded(server, downloads, tmp_path, messages):
    url = server.serve("/a/x.bin", DATA)
    path = downloads.get(url)
    assert path.read_bytes() == DATA
    assert path == tmp_path / "downloads" / f"127.0.0.1_{server.server_port}" / "a" / "x.bin"
    assert downloads.get(url) == path
    assert server.requests == [("/a/x.bin", None)]
    downloads.record()
    record = json.loads((tmp_path / RECORD).read_text())[url]
    assert (record["sha256"], record["bytes"]) == (hashlib.sha256(DATA).hexdigest(), len(DATA))
    assert [line for line in messages if line.startswith(f"{url}: no checksum") and record["sha256"] in line]
    assert not partial(path).exists()


def test_a_file_with_a_known_checksum_is_not_trusted_blindly(server, downloads, messages):
    downloads.get(server.serve("/a/x.bin", DATA), Checksum("sha256", hashlib.sha256(DATA).hexdigest()))
    downloads.record()
    assert not [line for line in messages if "trusted" in line]


def test_a_connection_that_breaks_goes_on_where_it_stopped(server, downloads, messages):
    url = server.serve("/x", DATA, drops=[1_000_000, 700_000, 1])
    assert downloads.get(url).read_bytes() == DATA
    assert [wanted for _, wanted in server.requests] == [
        None, "bytes=1000000-", "bytes=1700000-", "bytes=1700001-",
    ]  # fmt: skip
    assert any("resuming after 1 MB" in line for line in messages)


def test_a_killed_process_leaves_what_the_next_one_goes_on_with(server, downloads, tmp_path):
    held = threading.Event()
    url = server.serve("/x", DATA, pause=held)
    path = downloads.place(url)
    process = child(tmp_path, url)
    wait_for(lambda: partial(path).exists() and partial(path).stat().st_size == len(DATA) // 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    held.set()
    assert not path.exists()
    assert downloads.get(url).read_bytes() == DATA
    assert server.requests[1:] == [("/x", f"bytes={len(DATA) // 2}-")]


def test_a_server_without_ranges_is_asked_for_everything_again(server, downloads, messages):
    url = server.serve("/x", DATA, ranges="never", drops=[1_000_000])
    assert downloads.get(url).read_bytes() == DATA
    assert any("starting again" in line for line in messages)


@pytest.mark.parametrize("length", [-1, None])
def test_without_validators_nothing_is_continued(server, downloads, length):
    url = server.serve("/x", DATA, validators=False, length=length, drops=[1_000_000] if length else [])
    assert downloads.get(url).read_bytes() == DATA
    assert {wanted for _, wanted in server.requests} == {None}


@pytest.mark.parametrize("ranges", ["if-range", "always"])
@pytest.mark.parametrize("size", [len(DATA), 2_000_000, 500_000])
def test_a_file_that_changes_in_between_is_never_mixed(server, downloads, tmp_path, ranges, size):
    url = server.serve("/x", DATA, drops=[1_000_000])
    one_attempt = Downloads(tmp_path, lambda line: None, pauses=())
    with pytest.raises(UserError, match="the connection ended after 1 MB of 3 MB"):
        one_attempt.get(url)
    assert partial(downloads.place(url)).stat().st_size == 1_000_000
    other = random.Random(2).randbytes(size)
    server.serve("/x", other, ranges=ranges)
    assert downloads.get(url).read_bytes() == other


def test_everything_there_but_the_name(server, downloads, tmp_path):
    """Killed between the last byte and the renaming: nothing is asked for again."""
    url = server.serve("/x", DATA, drops=[len(DATA) - 1])
    with pytest.raises(UserError):
        Downloads(tmp_path, lambda line: None, pauses=()).get(url)
    with partial(downloads.place(url)).open("ab") as file:
        file.write(DATA[-1:])
    assert downloads.get(url).read_bytes() == DATA
    assert len(server.requests) == 1


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_a_wrong_checksum_names_both_and_keeps_the_file_aside(server, downloads, algorithm):
    url = server.serve("/x", DATA)
    right = hashlib.new(algorithm, DATA).hexdigest()
    wrong = "0" * len(right)
    with pytest.raises(UserError) as error:
        downloads.get(url, Checksum(algorithm, wrong))
    path = downloads.place(url)
    aside = path.with_name("x.wrong")
    assert right in error.value.what
    assert wrong in error.value.what
    assert str(aside) in error.value.line()
    assert aside.read_bytes() == DATA
    assert not path.exists()
    assert downloads.get(url, Checksum(algorithm, right)).read_bytes() == DATA


def test_what_was_fetched_first_holds_from_then_on(server, downloads, tmp_path):
    url = server.serve("/x", DATA)
    path = downloads.get(url)
    downloads.record()
    path.unlink()
    server.serve("/x", DATA[:-1])
    with pytest.raises(UserError, match=r"at its first fetch, 20\d\d-.*kept as .*x\.wrong.*fetched\.json"):
        Downloads(tmp_path, lambda line: None).get(url)


def test_not_found_is_asked_once_and_says_where_to_put_the_file(server, downloads):
    url = server.url("/none.tgz")
    path = downloads.place(url)
    with pytest.raises(UserError) as error:
        downloads.get(url)
    assert error.value.line() == (
        f"{url} cannot be fetched: the server answers 404 Not Found; "
        f"fetch it by hand, put it at {path}, and repeat this command"
    )
    assert len(server.requests) == 1
    path.write_bytes(DATA)
    assert downloads.get(url) == path
    assert len(server.requests) == 1


def test_a_busy_server_is_asked_again(server, downloads, messages):
    url = server.serve("/x", DATA, statuses=[503, 429])
    assert downloads.get(url).read_bytes() == DATA
    assert "the server answers 503 Service Unavailable; trying again in 0 s" in messages[0]


def test_a_server_that_stays_busy_is_given_up(server, downloads):
    url = server.serve("/x", DATA, statuses=[503] * 9)
    with pytest.raises(UserError, match="cannot be fetched: the server answers 503"):
        downloads.get(url)
    assert len(server.requests) == 3


def test_a_range_that_cannot_be_is_asked_for_anew(server, downloads):
    url = server.serve("/x", DATA, drops=[1_000_000])
    with pytest.raises(UserError):
        Downloads(downloads.cache, lambda line: None, pauses=()).get(url)
    server.files["/x"].statuses = [416]
    assert downloads.get(url).read_bytes() == DATA
    assert [wanted for _, wanted in server.requests] == [None, "bytes=1000000-", None]


def test_nobody_there(downloads, server):
    url = server.url("/x")
    server.shutdown()
    server.server_close()
    with pytest.raises(UserError, match="cannot be fetched: Connection refused; fetch it by hand, put it at"):
        downloads.get(url)


def test_no_space_is_said_before_a_byte_is_written(server, downloads):
    url = server.serve("/x", DATA, length=10**18)
    with pytest.raises(UserError, match=r"needs 1,000,000,000\.0 GB, and only .* are free"):
        downloads.get(url)
    assert not partial(downloads.place(url)).exists()


def test_two_processes_fetch_one_file_once(server, downloads, tmp_path):
    held = threading.Event()
    url = server.serve("/x", DATA, pause=held)
    first = child(tmp_path, url)
    wait_for(lambda: server.requests)
    second = child(tmp_path, url)
    line = second.stderr.readline()
    assert "another process is using it; waiting" in line
    held.set()
    for process in (first, second):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert out.strip() == str(downloads.place(url))
    assert len(server.requests) == 1
    assert downloads.place(url).read_bytes() == DATA


@pytest.mark.parametrize(
    "url", ["http://h/../../../../etc/passwd", "http://h/a/..//./../b", "http://../x", "http://h", "http://h/?a=../.."]
)
def test_no_url_names_a_place_outside_the_cache(downloads, tmp_path, url):
    assert downloads.place(url).resolve().is_relative_to(tmp_path / "downloads")


def test_a_record_that_is_no_json_is_said(server, downloads, tmp_path):
    url = server.serve("/x", DATA)
    (tmp_path / RECORD).write_text("{")
    with pytest.raises(UserError, match="is damaged: Invalid JSON"):
        downloads.get(url)
