"""Several mistakes told together, and errors that mean too little memory."""

import threading

import click
import pytest

from posnmt.base.errors import UserError, UserErrors, combined, is_out_of_memory, nearest, raise_all
from posnmt.cli.faults import needed
from posnmt.cli.group import Group
from posnmt.cli.main import main
from tests.support.commands import all_commands
from tests.support.little_memory import little_memory


def test_faults_that_were_found_together_join_others_and_are_said_once() -> None:
    one, two, three = (UserError(f"fault {number}", f"file:{number}") for number in (1, 2, 3))
    with pytest.raises(UserErrors) as raised:
        raise_all([UserErrors([one, two]), three, UserError("fault 1", "file:1")])
    assert raised.value.lines == ["fault 1 (file:1)", "fault 2 (file:2)", "fault 3 (file:3)"]
    assert str(raised.value) == "\n".join(raised.value.lines)


def test_one_fault_stays_the_error_that_it_is() -> None:
    class Own(UserError):
        """A fault with a class of its own, by which callers know it."""

    one, two = Own("fault 1", "file:1", "mend it"), Own("fault 2")
    assert combined([one]) is one
    assert combined([one, two]).lines == [one.line(), two.line()]
    raise_all([])


def test_a_thread_that_cannot_be_started_is_too_little_memory() -> None:
    before, ended = threading.stack_size(2**29), threading.Event()
    threads = [threading.Thread(target=ended.wait) for _ in range(4)]
    try:
        with little_memory(), pytest.raises(RuntimeError) as raised:
            any(thread.start() for thread in threads)
    finally:
        ended.set()
        threading.stack_size(before)
    assert is_out_of_memory(raised.value)
    assert is_out_of_memory(RuntimeError("Resource temporarily unavailable"))  # std::thread's, with sentencepiece
    assert not is_out_of_memory(BlockingIOError(11, "Resource temporarily unavailable"))  # a lock that another has
    assert is_out_of_memory(RuntimeError("could not create a primitive"))  # oneDNN's
    assert not is_out_of_memory(RuntimeError("could not create a primitive descriptor for a matmul primitive"))
    assert not is_out_of_memory(RuntimeError("expected a matrix"))


def test_nan_is_no_number_of_an_option() -> None:
    numbers = [
        each
        for _, command in all_commands()
        for each in command.params
        if isinstance(each.type, click.types.FloatParamType)
    ]
    assert len(numbers) >= 10
    for each in numbers:
        if isinstance(each.type, click.FloatRange):
            with pytest.raises(click.BadParameter, match="is needed; got 'nan'"):
                each.type.convert("nan", each, None)


def test_a_number_of_an_option_is_written_in_digits() -> None:
    """Python reads `1_0` and digits of other scripts; a configuration does not."""
    kinds = (click.types.IntParamType, click.types.FloatParamType)
    numbers = [each for _, command in all_commands() for each in command.params if isinstance(each.type, kinds)]
    assert len(numbers) >= 50
    for each in numbers:
        for text in ("1_0", "\uff11", "\u0661"):
            with pytest.raises(click.BadParameter, match="in the digits 0 to 9, without underscores"):
                each.type.convert(text, each, None)
    assert {each.type.convert("1", each, None) for each in numbers if each.name in ("beam", "minutes")} == {1}


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "nowhere", "--beam", "1_0"],
        ["train", "--minutes", "1_0"],
        ["analyse", "--samples", "1_00", "--source", "x"],
        ["analyse", "--source", "x", "--reference", "x", "--output", "a=x", "--bin-edges", "1_0"],
        ["analyse", "--source", "x", "--reference", "x", "--output", "a=x", "--examples", "1_0"],
        ["analyse", "--source", "x", "--reference", "x", "--output", "a=x", "--swapped", "a:0.0_1=x"],
        ["score", "nowhere", "--source", "x", "--target", "x", "--positions", "clip=1_6"],
    ],
)
def test_commands_refuse_numbers_with_underscores(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert arguments[-1].rpartition("=")[2] in line or "swapped" in line or "samples" in line


def ended(command: click.Group, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, list[str]]:
    """The exit status of a command, and what it said."""
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)
    return exit_.value.code, [line for line in capsys.readouterr().err.splitlines() if line]


def test_an_argument_that_is_not_utf_8_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = ended(main, ["train", "a.yaml", "--out", "run\udcff"], capsys)
    assert status == 2
    assert [line.count("run\\udcff") for line in lines] == [1]


@pytest.mark.parametrize(
    ("error", "status", "lines"),
    [(MemoryError(), 2, 1), (RuntimeError("Resource temporarily unavailable"), 2, 1), (KeyboardInterrupt(), 130, 1)],
)
def test_how_a_command_ends(error: BaseException, status: int, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise error

    code, said = ended(Group(commands={"fail": click.Command("fail", callback=fail)}), ["fail"], capsys)
    assert (code, len(said)) == (status, lines)


def test_a_fault_of_ours_is_no_error_of_the_user() -> None:
    def fail() -> None:
        raise RuntimeError("a matrix was expected")

    with pytest.raises(RuntimeError, match="matrix"):
        Group(commands={"fail": click.Command("fail", callback=fail)}).main(["fail"])


@pytest.mark.parametrize("text", ["ten", "1.5.2", "", "--", "1e", "九"])
def test_a_text_for_a_number_is_refused_with_what_is_needed(text: str) -> None:
    """For every number of every command: whole or not, and its limits."""
    kinds = (click.types.IntParamType, click.types.FloatParamType)
    numbers = [each for _, command in all_commands() for each in command.params if isinstance(each.type, kinds)]
    assert len(numbers) >= 50
    for each in numbers:
        with pytest.raises(click.BadParameter) as refused:
            each.type.convert(text, each, None)
        limits = [getattr(each.type, name, None) for name in ("min", "max")]
        if text != "九":  # said to be no digit
            number = "a whole number" if isinstance(each.type, click.types.IntParamType) else "a number"
            said = refused.value.message
            assert said.startswith(number)
            assert said.endswith(f" is needed; got {text!r}")
            assert all(f"{limit:,}" in said or f"{limit:g}" in said for limit in limits if limit is not None)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (click.INT, "a whole number"),
        (click.FLOAT, "a number"),
        (click.IntRange(1, 65535), "a whole number from 1 to 65,535"),
        (click.IntRange(min=1), "a whole number of 1 or more"),
        (click.IntRange(max=9), "a whole number of 9 or less"),
        (click.FloatRange(0, min_open=True), "a number above 0"),
        (click.FloatRange(0, 1, max_open=True), "a number of 0 or more and below 1"),
        (click.FloatRange(0.5, 1, min_open=True, max_open=True), "a number above 0.5 and below 1"),
    ],
)
def test_what_a_number_must_be(kind: click.ParamType, words: str) -> None:
    assert needed(kind) == words


def test_every_choice_is_refused_with_the_choices() -> None:
    chosen = [each for _, command in all_commands() for each in command.params if isinstance(each.type, click.Choice)]
    assert len(chosen) >= 15
    for each in chosen:
        with pytest.raises(click.BadParameter) as refused:
            each.type.convert("nothing", each, None)
        assert refused.value.message.startswith("there is no 'nothing'; ")
        assert refused.value.message.endswith(f"there are: {', '.join(each.type.choices)}")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("train --mintes 4", "posnmt train has no option --mintes; did you mean --minutes?"),
        ("train --device cuda", "posnmt train has no option --device; see `posnmt train --help-all`"),
        ("trian", "posnmt has no command 'trian'; did you mean train?"),
        ("frobnicate", "posnmt has no command 'frobnicate'; see `posnmt --help`"),
        ("data fecth", "posnmt data has no command 'fecth'; did you mean fetch?"),
        ("train --minutes", "--minutes needs a value"),
        ("analyse --parallel a", "--parallel needs 2 values"),
        ("train --resume=1", "--resume takes no value"),
        ("analyse --source a", "--reference is missing; see `posnmt analyse --help-all`"),
        ("export run", "--format is missing; see `posnmt export --help`"),
        (
            "figure analysis --width 1in",
            "--width: '1in' is not between 2in and 20in; see `posnmt figure --help`",
        ),
        (
            "figure analysis --format a.",
            "--format: 'a.' is not one of pdf, svg, tex, csv; separate several by commas; see `posnmt figure --help`",
        ),
        ("metrics install nix", "no neural metric is called 'nix' (NAME); there are: comet, comet-qe, metricx"),
        ("prepare", "CONFIG is missing; see `posnmt prepare --help`"),
        ("train a.en a.de", "posnmt train takes CONFIG alone, and a.de is too much; see `posnmt train --help-all`"),
        ("prepare a b c", "posnmt prepare takes CONFIG alone, and b c is too much; see `posnmt prepare --help`"),
        (
            "metrics list a",
            "posnmt metrics list takes no argument, and a is too much; see `posnmt metrics list --help`",
        ),
        (
            "serve run --port x",
            "--port: a whole number from 0 to 65,535 is needed; got 'x'; see `posnmt serve --help-all`",
        ),
    ],
)
def test_mistakes_on_the_command_line(arguments: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split(), prog_name="posnmt")
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"error: {line}\n"


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("device", ["dev_bleu", "data"], None),
        ("batch_size", ["batch_unit", "batch"], "batch"),
        ("max_steps", ["steps", "max_length"], "steps"),
        ("realtive", ["relative", "rope"], "relative"),
        ("cuda", ["clip", "data"], None),
    ],
)
def test_a_suggestion_is_near_or_there_is_none(word: str, known: list[str], near: str | None) -> None:
    assert nearest(word, known) == near
