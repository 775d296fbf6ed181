"""Commands that run in the helper: as in their own process, in every respect that shows."""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.request
from pathlib import Path

import pytest

from drt_cli._warm.place import warm_folder
from drt_cli._warm.start import current_helper
from tests.cli.warm.conftest import COMMAND, FAKES, HELPER, IN_PROCESS, SETTINGS, Warm, until
from tests.forks import Fork

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/ns"), reason="Linux only")

WITHOUT_TORCH = COMMAND.replace(
    "main()\n",
    """
try:
    main()
finally:
    assert not {"torch", "numpy", "drt_engine"} & set(sys.modules), "the engine was imported"
""",
)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "words",
    [
        ("ask", "notice period", "a.txt"),
        ("ask", "notice period", "--json"),
        *(
            pytest.param(words, marks=pytest.mark.thorough)
            for words in (
                ("ask", "notice period", "--threshold", "x"),
                ("ask", "notice period", "missing.txt"),
                ("ask", "notice period", "--doc", "nothing"),
                ("search", "notice", "--top-k", "2"),
                ("summarize", "a.txt"),
                ("trace", "notice period", "a.txt"),
            )
        ),
    ],
    ids=" ".join,
)
def test_output_is_that_of_the_own_process(warm: Warm, words: tuple[str, ...]) -> None:
    warm.run("ask", "keeper", "a.txt", code=IN_PROCESS)  # so that the document is there
    own = warm.run(*words, code=IN_PROCESS, DRT_WARM="off")
    warm.helper()
    passed = warm.real(*words, code=f"import os; os.chdir({str(warm.folder)!r}){WITHOUT_TORCH}")
    assert (passed.returncode, _untimed(passed.stdout), passed.stderr) == (
        own[0],
        _untimed(own[1]),
        own[2],
    )


def _untimed(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if '"seconds"' not in line)


@pytest.mark.thorough
def test_streams_folder_and_variables_are_those_of_the_command(warm: Warm) -> None:
    warm.helper()
    below = warm.folder / "below"
    below.mkdir()
    (below / "b.txt").write_text("The keeper signs the log.")
    code, out, err = warm.run("ask", "-", "b.txt", stdin="keeper\nlog\n", cwd=below)
    assert code == 0 and "> keeper\n" in out and "> log\n" in out, (code, out, err)
    code, out, err = warm.run("ask", "keeper", DRT_LIBRARY=str(warm.folder / "other"))
    assert code == 1 and "other" in err
    assert warm.run("show", "1")[0] == 0  # the terminal is that of the command


@pytest.mark.thorough
def test_two_commands_run_at_once(warm: Warm) -> None:
    warm.run("ask", "keeper", "a.txt", code=IN_PROCESS)
    warm.helper()
    waiting = warm.start("ask", "wait for keeper")
    assert waiting.stdout.readline() == "working\n"
    assert warm.run("ask", "notice period")[0] == 0
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait() == 130


@pytest.mark.thorough
def test_ctrl_c_ends_the_question_and_not_the_helper(warm: Warm) -> None:
    warm.run("ask", "keeper", "a.txt", code=IN_PROCESS)
    helper = warm.helper()
    process = warm.start("ask", "wait for keeper")
    assert process.stdout.readline() == "working\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "\n") and process.returncode == 130
    until(lambda: not _children(helper.pid))
    assert current_helper() is not None


@pytest.mark.thorough
def test_a_question_ends_with_the_command_that_was_called(warm: Warm) -> None:
    warm.run("ask", "keeper", "a.txt", code=IN_PROCESS)
    helper = warm.helper()
    process = warm.start("ask", "wait for keeper")
    assert process.stdout.readline() == "working\n"
    process.send_signal(signal.SIGKILL)
    until(lambda: not _children(helper.pid))


@pytest.mark.thorough
def test_a_helper_that_is_killed_before_the_first_output_is_not_missed(warm: Warm) -> None:
    warm.run("ask", "keeper", "a.txt", code=IN_PROCESS)
    warm.helper()
    code, out, err = warm.run("ask", "keeper gone killed", code=IN_PROCESS_AFTERWARDS)
    assert code == 0 and "keeper" in out and not err, (code, out, err)


# The engine kills the helper's fork, and answers in this process.
IN_PROCESS_AFTERWARDS = IN_PROCESS.replace('or "gone" in question', "")


@pytest.mark.thorough
def test_a_helper_that_is_killed_in_the_middle_is_an_error(warm: Warm) -> None:
    warm.run("ask", "keeper", "a.txt", code=IN_PROCESS)
    warm.helper()
    code, out, err = warm.run("ask", "die killed: notice")
    assert (code, out) == (1, "so far\n") and "ask again" in err


@pytest.mark.thorough
def test_it_works_on_while_its_parent_is_killed(warm: Warm) -> None:
    warm.run("ask", "keeper", "a.txt", code=IN_PROCESS)
    helper = warm.helper()
    process = warm.start("ask", "wait for keeper")
    assert process.stdout.readline() == "working\n"
    helper.send_signal(signal.SIGKILL)
    helper.wait()
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    code, out, _ = warm.run("ask", "notice period", code=IN_PROCESS)  # past the stale socket
    assert code == 0 and out
    warm.helper()  # which a new one takes over


@pytest.mark.thorough
def test_another_environment_is_refused(warm: Warm) -> None:
    warm.run("ask", "keeper", "a.txt", code=IN_PROCESS)
    warm.helper()
    code, out, err = warm.run(
        "ask", "keeper gone", code=IN_PROCESS_AFTERWARDS, MKL_CBWR="COMPATIBLE"
    )
    assert code == 0 and "keeper" in out, (code, out, err)


@pytest.mark.thorough
def test_another_model_replaces_it_and_the_same_does_not(warm: Warm) -> None:
    first = warm.helper()
    second = warm.forks.run(HELPER, json.dumps(SETTINGS), variables=warm.variables)
    assert (second.returncode, second.stderr) == (0, "")
    info = current_helper()
    assert info is not None and info.pid == first.pid
    warm.helper(model="n")
    until(lambda: (new := current_helper()) is not None and new.model == "n")
    assert first.wait() == 0


@pytest.mark.thorough
def test_it_ends_without_commands_and_without_its_socket(warm: Warm) -> None:
    # Not waited for until it is ready: on a busy machine it may have ended by then.
    helper = warm.started_helper(HELPER, idle_minutes=0.005)
    assert helper.wait() == 0 and not (warm_folder() / "socket").exists()
    looking = HELPER.replace("main()\n", "helper._LOOK = 0.1\nmain()\n")
    helper = warm.started_helper(f"from drt_cli._warm import helper\n{looking}")
    until(lambda: (info := current_helper()) is not None and info.ready)
    (warm_folder() / "socket").rename(warm_folder() / "elsewhere")
    assert helper.wait() == 0  # long before its ten minutes


@pytest.mark.thorough
def test_status_and_stop(warm: Warm) -> None:
    assert warm.run("warm", "status")[2] == "No helper process runs.\n"
    helper = warm.helper()
    code, out, _ = warm.run("warm", "status", "--json")
    assert code == 0 and f'"pid": {helper.pid}' in out and '"ready": true' in out
    code, out, err = warm.run("warm", "stop")
    assert (code, out) == (0, "") and "has ended" in err
    assert helper.wait() == 0
    assert warm.run("warm", "stop")[0] == 0


def serving(warm: Warm) -> tuple[Fork, str]:
    """Start a server, and return it with its address once its helper accepts commands."""
    pytest.importorskip("uvicorn")
    server = warm.start("serve", "--port", "0", code=IN_PROCESS)
    address = server.stderr.readline().removeprefix("Serving ").split(";")[0]
    until(lambda: (info := current_helper()) is not None and info.ready and info.server)
    return server, address


@pytest.mark.thorough
def test_a_server_answers_commands_until_it_ends(warm: Warm) -> None:
    warm.run("ask", "keeper", "a.txt", code=IN_PROCESS)
    server, _ = serving(warm)
    code, out, err = warm.run("ask", "keeper")  # with no engine of its own
    assert (code, err) == (0, "") and "keeper" in out
    code, out, _ = warm.run("warm", "status")
    assert str(warm.folder / "library") in out
    info = current_helper()
    assert info is not None and str(info.pid) in out.split()  # as `kill` takes it
    waiting = warm.start("ask", "wait for keeper")
    assert waiting.stdout.readline() == "working\n"
    server.send_signal(signal.SIGTERM)
    assert server.wait() == 0
    until(lambda: current_helper() is None)
    waiting.send_signal(signal.SIGINT)  # what runs goes on
    assert waiting.wait() == 130


@pytest.mark.thorough
def test_a_helper_goes_with_a_server_that_is_killed(warm: Warm) -> None:
    first = warm.helper()
    server, _ = serving(warm)  # which has the same model, and takes its place
    assert first.wait() == 0
    info = current_helper()
    assert info is not None
    options = json.dumps(SETTINGS | {"model": info.model})
    second = warm.forks.run(HELPER, options, variables=warm.variables)
    assert (second.returncode, second.stderr) == (0, "")  # one of a command does not
    assert current_helper() == info
    server.send_signal(signal.SIGKILL)
    server.wait()
    until(lambda: current_helper() is None)


@pytest.mark.thorough
def test_a_server_goes_on_without_its_helper(warm: Warm) -> None:
    server, address = serving(warm)
    assert "has ended" in warm.run("warm", "stop")[2]
    with urllib.request.urlopen(f"{address}/healthz") as response:
        assert response.status == 200
    server.send_signal(signal.SIGINT)
    assert server.wait() == 0


@pytest.mark.thorough
def test_a_server_off_a_terminal_has_none(warm: Warm) -> None:
    pytest.importorskip("uvicorn")
    server = warm.start("serve", "--port", "0", code=IN_PROCESS, DRT_WARM="auto")
    assert "Serving" in server.stderr.readline()
    assert current_helper() is None
    server.send_signal(signal.SIGTERM)
    assert server.wait() == 0


# `drt warm start`, whose helper takes some time to import what it needs, or ends at once.
START = f"""{FAKES}
def spawn(path, words, environment, **_):
    pid = os.fork()
    if pid == 0:
        for number in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        time.sleep(0.2)
        sys.argv = ["-c", words[-1]]
        if "FAILS" not in os.environ:
            helper.main()
        os._exit(1)
    return pid
os.posix_spawn = spawn
{COMMAND}"""


@pytest.mark.thorough
def test_a_started_helper_can_be_stopped_at_once(warm: Warm) -> None:
    assert warm.run("warm", "start", code=START) == (0, "", "")
    first = current_helper()
    assert first is not None
    assert warm.run("warm", "start", code=START) == (0, "", "")  # which stays
    code, _, err = warm.run("warm", "stop")
    assert code == 0 and f"{first.pid} has ended" in err
    assert current_helper() is None


@pytest.mark.thorough
def test_a_helper_that_cannot_start_is_an_error(warm: Warm) -> None:
    code, out, err = warm.run("warm", "start", code=START, FAILS="1")
    assert (code, out) == (1, "") and "no helper process could be started" in err


@pytest.mark.thorough
@pytest.mark.parametrize("gone", ["state", "program"])
def test_it_ends_when_its_folder_or_its_program_is_gone(warm: Warm, gone: str) -> None:
    program = warm.folder / "program"
    program.touch()
    code = HELPER.replace(
        "main()\n", f"helper._LOOK, helper._PROGRAM = 0.02, ({str(program)!r},)\nmain()\n"
    )
    assert "_LOOK" in code
    process = warm.forks.start(code, json.dumps(SETTINGS), variables=warm.variables)
    warm.started.append(process)
    until(lambda: (info := current_helper()) is not None and info.ready)
    if gone == "state":
        shutil.rmtree(warm_folder().parent)
    else:
        program.unlink()
    assert process.wait(10) == 0


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
