"""The `laneway` command in a pipe and in a terminal, on both transports."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.library.shell import Shell
from tests.library.terminal import LANEWAY
from tests.library.workers import until
from tests.postgres import execute

if TYPE_CHECKING:
    from pathlib import Path

    from tests.library.conftest import Place

APP = """
import laneway
app = laneway.App({address})

@app.handler("{queue}")
async def handle(message):
    print("handled", message.payload, flush=True)
"""


def test_queue_commands_work_in_a_script(local: Shell, queue: str) -> None:
    name = f"{queue}-made"
    created = local.json("queue", "create", name, "--max-attempts", "1", "--max-bytes", "5000")
    assert created["name"] == name
    assert local.json("queue", "get", name)["max_bytes"] == 5000
    assert local.run("queue", "create", name).returncode == 4
    pushed = local.json(
        "enqueue", "-", "--queue", name, "--priority", "3", given='{"n": 1}\n\n"two"\n'
    )
    assert pushed["pushed"] == 2
    taken = local.json("dequeue", "--queue", name, "--count", "5", "--ack", "--consumer", "me")
    assert [item["payload"] for item in taken] == [{"n": 1}, "two"]
    assert [item["id"] for item in taken] == pushed["ids"]
    empty = local.run("dequeue", "--queue", name, "--timeout", "0", "--format", "json")
    assert (empty.returncode, empty.stdout) == (6, "[]\n")
    assert local.json("queue", "metrics", name)["acknowledged"] == 2
    assert local.json("enqueue", "--queue", name)["pushed"] == 500
    assert local.run("queue", "delete", name).returncode == 4
    assert local.json("queue", "purge", name, "--yes")["deleted"] >= 500
    assert local.run("queue", "delete", name, "--force").returncode == 0
    assert local.run("queue", "get", name).returncode == 3


def test_messages_pass_on_both_transports(shell: Shell, queue: str) -> None:
    pushed = shell.json("enqueue", '{"n": 1}', "--queue", queue)
    taken = shell.json("dequeue", "--queue", queue, "--ack")
    assert [(item["id"], item["payload"]) for item in taken] == [(pushed["ids"][0], {"n": 1})]
    assert shell.run("queue", "get", "nowhere").returncode == 3


def test_dead_letters(local: Shell, queue: str) -> None:
    local.json("enqueue", "[1]", "--queue", queue, "--messages", "2")
    local.json("dequeue", "--queue", queue, "--ack-timeout", "0.01", "--count", "2")
    assert local.json("queue", "dlq", "list", queue) == []
    assert local.json("queue", "dlq", "replay", queue) == {"replayed": 0}
    assert local.json("queue", "dlq", "purge", queue, "--yes") == {"deleted": 0}


def test_tables_are_complete_and_unstyled(local: Shell, queue: str) -> None:
    local.run("enqueue", '{"text": "[bold]not markup[/bold]"}', "--queue", queue)
    shown = local.run("queue", "messages", queue).stdout
    assert "[bold]not markup[/bold]" in shown
    assert "…" not in shown
    with local.terminal("queue", "list") as listed:
        assert listed.wait() == 0
        assert queue in listed.text
        assert "…" not in listed.text
    assert "\x1b" not in shown
    assert queue in local.run("queue", "list").stdout
    assert "max attempts" in local.run("queue", "get", queue).stdout
    assert "postgres" in local.run("admin", "stats").stdout


def test_worker_commands(local: Shell, queue: str) -> None:
    assert local.json("worker", "list", "--queue", queue) == []
    for command in ("get", "suspend", "resume", "shutdown"):
        done = local.run("worker", command, "nobody")
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith('laneway: worker "nobody" not found')
    assert "total" in local.json("worker", "stats")
    assert "reclaimed" in local.json("admin", "reclaim", "--timeout", "3600")
    assert "purged" in local.json("worker", "purge", "--older-than", "1000")


def test_run_commands(local: Shell, queue: str) -> None:
    run = local.json("workflow", "start", "nothing", "[1]", "--queue", queue)["run_id"]
    assert local.json("workflow", "get", run)["status"] == "running"
    assert local.json("workflow", "pause", run)["status"] == "paused"
    assert local.run("workflow", "pause", run).returncode == 4
    assert local.json("workflow", "resume", run)["status"] == "running"
    assert local.json("workflow", "cancel", run)["status"] == "cancelled"
    assert local.run("workflow", "get", "nobody").returncode == 3
    assert local.run("workflow", "start", "nothing", "{}", "--queue", queue).returncode == 2
    assert run in [item["run_id"] for item in local.json("workflow", "list", "--limit", "1000")]


async def test_input_and_result_of_a_run_are_json_within_json(
    place: Place, local: Shell, queue: str
) -> None:
    given = '[{"a": 1},\n"\\u001b"]'
    run = local.json("workflow", "start", "x", given, "--queue", queue)["run_id"]
    shown = local.json("workflow", "get", run)
    assert (shown["input"], shown["result"]) == (json.loads(given), None)
    await execute(
        place.dsn,
        "update laneway.workflow set status = 'completed', finished_at = now(),"
        f" input = '[1e400,\n1]', result = '{{\n\"n\": [true]}}' where run_id = '{run}'",
    )
    done = local.run("workflow", "get", run, "--format", "json")
    assert '"input":[1e400,1],"result":{"n":[true]}' in done.stdout
    (listed,) = [
        item for item in local.json("workflow", "list", "--limit", "1000") if item["run_id"] == run
    ]
    assert listed["result"] == {"n": [True]}
    assert '"n": [true]}' in local.run("workflow", "get", run).stdout


@pytest.mark.parametrize("wait", ["0", "0.1"])
def test_run_that_did_not_end_in_time_is_named(local: Shell, queue: str, wait: str) -> None:
    start = ("workflow", "start", "nothing", "--queue", queue, "--wait", wait)
    for form in ("table", "json"):
        done = local.run(*start, "--format", form)
        assert done.returncode == 5
        run = json.loads(done.stdout)["run_id"] if form == "json" else done.stdout.strip()
        assert local.json("workflow", "get", run)["status"] == "running"
        assert done.stderr.startswith(f"laneway: workflow run {run} ")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_run_is_named_when_a_signal_ends_the_wait(
    place: Place, local: Shell, queue: str, sent: signal.Signals, code: int
) -> None:
    watch = await asyncpg.connect(place.dsn)
    begun = await watch.fetchval("select clock_timestamp()")
    with local.terminal("workflow", "start", "x", "--queue", queue, "--wait", "600") as waiting:
        await until(
            lambda: watch.fetchval(
                "select exists (select from pg_stat_activity where backend_start > $1"
                " and query like '%laneway.workflows w where w.run_id%' and pid <> pg_backend_pid())",
                begun,
            )
        )
        waiting.process.send_signal(sent)
        assert waiting.wait() == code
    run = await watch.fetchval(
        "select run_id from laneway.workflows where queue = $1 and status = 'running'", queue
    )
    assert waiting.text.strip() == run
    await watch.close()


def test_app_runs_until_it_is_stopped(place: Place, local: Shell, queue: str) -> None:
    (local.folder / "jobs.py").write_text(APP.format(queue=queue, address=""))
    local.run("enqueue", '"hello"', "--queue", queue)
    with local.terminal("worker", "run", "jobs:app") as running:
        running.expect("handled hello")
        workers = local.json("worker", "list", "--queue", queue)
        assert [item["state"] for item in workers] == ["polling"]
        # A number that names something has no separators.
        assert f" {running.process.pid} " in local.run("worker", "list", "--queue", queue).stdout
        assert local.run("worker", "health").returncode in {0, 1}
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0
    (stopped,) = local.json("worker", "list", "--queue", queue)
    assert (stopped["state"], stopped["handled"]) == ("stopped", 1)
    for wrong in ("nowhere:app", "jobs:nothing", "json:loads"):
        assert local.run("worker", "run", wrong).returncode == 1
    assert local.run("worker", "run", "jobs:app", "--log-level", "loud").returncode == 2
    # A flag goes before what the app's code says.
    (local.folder / "away.py").write_text(APP.format(queue=queue, address='"http://127.0.0.1:1"'))
    local.run("enqueue", '"again"', "--queue", queue)
    here = ("worker", "run", "away:app", "--database-url", place.dsn)
    assert local.run(*here, "--address", place.url).returncode == 2
    with local.terminal(*here) as running:
        running.expect("handled again")


def test_worker_logs_what_it_runs_and_a_summary(local: Shell, queue: str) -> None:
    (local.folder / "jobs.py").write_text(APP.format(queue=queue, address=""))
    local.run("enqueue", '"hello"', "--queue", queue)
    with local.terminal("worker", "run", "jobs:app") as running:
        running.expect("is ready, on database postgresql://")
        running.expect(f"INFO queue {queue}: handle, up to 10 at a time")
        running.expect("handled hello")
        running.process.send_signal(signal.SIGTERM)
        running.expect("1 message handled, 0 failed")
        assert running.wait() == 0


def test_worker_logs_json_without_a_terminal(local: Shell, queue: str) -> None:
    (local.folder / "jobs.py").write_text(APP.format(queue=queue, address=""))
    with subprocess.Popen(
        [LANEWAY, "worker", "run", "jobs:app"],
        cwd=local.folder,
        env={"PATH": "/usr/bin:/bin", **local.variables},
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stderr is not None
        named, ready = (json.loads(worker.stderr.readline()) for _ in range(2))
        assert named["level"] == "info"
        assert named["message"] == "app jobs:app"
        assert "is ready, on database" in ready["message"]
        worker.send_signal(signal.SIGTERM)
        lines = [json.loads(line)["message"] for line in worker.stderr]
        assert lines[-1].endswith("0 messages handled, 0 failed")


def test_question_is_asked_in_a_terminal(local: Shell, queue: str) -> None:
    local.run("enqueue", "1", "--queue", queue)
    with local.terminal("queue", "purge", queue) as asked:
        asked.expect(f"Delete the messages of {queue}?")
        asked.send("n\n")
        assert asked.wait() == 1
    with local.terminal("queue", "purge", queue) as asked:
        asked.expect("[y/N]")
        asked.send("y\n")
        asked.expect("1 message deleted")
        assert asked.wait() == 0


def test_bulk_work_shows_a_bar_in_a_terminal_only(local: Shell, queue: str) -> None:
    with local.terminal(
        "enqueue", "--queue", queue, "--messages", "300", "--batch-size", "20"
    ) as bulk:
        bulk.expect("300 messages enqueued")
        assert bulk.wait() == 0
        assert "enqueueing" in bulk.text
        assert "100%" in bulk.text
    piped = local.run("enqueue", "--queue", queue, "--messages", "30")
    assert piped.stderr == ""
    assert piped.stdout == f"30 messages enqueued to {queue}\n"


def test_top_shows_queues_and_ends_with_ctrl_c(local: Shell, queue: str) -> None:
    local.run("enqueue", "1", "--queue", queue, "--messages", "20000", "--batch-size", "5000")
    with local.terminal("top", "--interval", "0.2") as top:
        top.expect(queue)
        top.expect("20,000")
        top.expect("workers")
        top.send("\x03")
        assert top.wait() == 130
        # The screen is restored.
        assert "\x1b[?1049l" in top.raw
    (line,) = local.run("top", "--updates", "1", "--format", "json").stdout.splitlines()
    assert queue in [item["queue"] for item in json.loads(line)["queues"]]


def test_schema_commands_work_on_both_transports(shell: Shell) -> None:
    version = shell.json("admin", "install")["version"]
    assert shell.run("admin", "install").stdout == f"schema is at version {version}\n"
    assert shell.json("admin", "verify") == {"problems": []}


def test_tail_follows_what_happens(shell: Shell, queue: str) -> None:
    with shell.terminal("tail", queue) as tail:
        tail.expect(f"following {queue}")
        shell.run("enqueue", "1", "--queue", queue)
        tail.expect("pushed")
        shell.run("dequeue", "--queue", queue, "--consumer", "me", "--ack")
        tail.expect("by me")
        tail.expect("acked")
        tail.send("\x03")
        assert tail.wait() == 130
    assert shell.run("tail", "nowhere").returncode == 3


def test_benchmark_prints_the_table(local: Shell) -> None:
    done = local.run("benchmark", "--duration", "0.2", "--batch-size", "10", "--workers", "3")
    assert done.returncode == 0, done.stderr
    for wanted in (
        "Ops/Sec",
        "Avg (ms)",
        "P99 (ms)",
        "Single Enqueue",
        "Batch Enqueue (10/batch)",
        "Single Dequeue",
        "Full Cycle",
        "Concurrent Enqueue (3 workers)",
    ):
        assert wanted in done.stdout
    one = local.json("benchmark", "--duration", "0.1", "--test", "enqueue", "--logging")
    assert [item["Operation"] for item in one] == ["Single Enqueue"]
    assert not [
        item for item in local.json("queue", "list") if item["queue"].startswith("benchmark-")
    ]


def test_settings_are_read_from_the_file(place: Place, tmp_path: Path, queue: str) -> None:
    (tmp_path / "laneway.toml").write_text(f'server_url = "{place.url}"\n')
    done = subprocess.run(
        [LANEWAY, "queue", "get", queue, "--format", "json"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["name"] == queue


def test_flag_overrides_the_environment(place: Place, local: Shell, queue: str) -> None:
    local.variables = {"SERVER_URL": "http://127.0.0.1:1"}
    (local.folder / "laneway.toml").write_text('server_url = "http://127.0.0.1:1"')
    assert local.json("queue", "get", queue, "--database-url", place.dsn)["name"] == queue
    local.variables = {"DATABASE_URL": "postgresql://127.0.0.1:1/x"}
    assert local.json("queue", "get", queue, "--url", place.url)["name"] == queue
    both = local.run("queue", "list", "--url", place.url, "--database-url", place.dsn)
    assert (both.returncode, both.stderr) == (
        2,
        "laneway: --url contradicts the flag that names a database: use one of them\n",
    )
    wrong = local.run("queue", "list", "--url", "foo")
    assert wrong.returncode == 2
    assert wrong.stderr == (
        "laneway: --url is not a server's URL: use one such as http://host:3001. Name a database with"
        " --database-url\n"
    )


def test_input_with_a_bad_line_is_not_pushed(local: Shell, queue: str) -> None:
    push = ("enqueue", "-", "--queue", queue, "--batch-size", "2", "--format", "json")
    given = "1\n\n2\n3\n4\n5\n{not json\n6\n"
    done = local.run(*push, given=given)
    assert (done.returncode, done.stdout) == (2, "")
    assert "line 7 is not JSON" in done.stderr
    assert local.json("queue", "metrics", queue)["total"] == 0
    # As they come, all lines before it are there, and the code tells.
    done = local.run(*push, "--stream", given=given)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"5 messages enqueued to {queue} before the error" in done.stderr
    assert "line 7 is not JSON" in done.stderr
    assert local.json("queue", "metrics", queue)["total"] == 5


def test_signal_ends_a_wait_for_input(local: Shell, queue: str) -> None:
    with local.terminal("enqueue", "-", "--queue", queue, "--stream", "--batch-size", "1") as typed:
        typed.send("1\n")
        while local.json("queue", "metrics", queue)["total"] == 0:
            assert typed.process.poll() is None
        typed.process.send_signal(signal.SIGTERM)
        assert typed.wait() == 143
        assert f"1 message enqueued to {queue} before the error" in typed.text


def test_invalid_json_exits_with_2(local: Shell, queue: str) -> None:
    done = local.run("enqueue", "NaN", "--queue", queue)
    assert done.returncode == 2
    assert "payload is not JSON: JSON has no number NaN" in done.stderr
    for wrong in ("[NaN]", '["P", 1e400]'):
        assert local.run("workflow", "start", "x", wrong, "--queue", queue).returncode == 2
    done = local.run("workflow", "start", "x", "[", "--queue", queue)
    assert "the list of arguments is not JSON" in done.stderr
    assert local.json("queue", "metrics", queue)["total"] == 0


@pytest.mark.parametrize(
    "call",
    [
        ("queue", "create", ""),
        ("queue", "create", "not UTF-8: \udcff"),
        ("enqueue", "1", "--queue", "not UTF-8: \udcff"),
        ("workflow", "start", "not UTF-8: \udcff"),
    ],
)
def test_invalid_name_exits_with_2(shell: Shell, call: tuple[str, ...]) -> None:
    done = shell.run(*call)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


async def test_message_refused_half_way_reports_what_was_pushed(
    place: Place, local: Shell, queue: str
) -> None:
    await execute(place.dsn, f"update laneway.queue set max_bytes = 10 where name = '{queue}'")
    enqueue = ("enqueue", "-", "--queue", queue, "--batch-size", "1")
    large = '"larger than the queue allows"'
    assert local.run(*enqueue, given=large).returncode == 2
    done = local.run(*enqueue, given=f"1\n{large}")
    assert done.returncode == 1
    assert f"1 message enqueued to {queue} before the error" in done.stderr


@pytest.mark.parametrize(
    "call",
    [
        ("enqueue", "1", "--delay", "inf"),
        ("enqueue", "1", "--delay", "1e300"),
        ("dequeue", "--timeout", "inf"),
        ("worker", "health", "--timeout", "inf"),
        ("admin", "reclaim", "--timeout", "inf"),
    ],
)
def test_infinite_time_exits_with_2(tmp_path: Path, call: tuple[str, ...]) -> None:
    done = Shell("http://127.0.0.1:1", tmp_path).run(*call)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_failure_is_one_line(tmp_path: Path) -> None:
    for address in ("http://127.0.0.1:1", "postgresql://127.0.0.1:1/x"):
        away = Shell(address, tmp_path).run("queue", "list")
        assert (away.returncode, len(away.stderr.splitlines())) == (5, 1)
        assert "127.0.0.1" in away.stderr
    wrong = Shell("postgresql://127.0.0.1:1/x", tmp_path).run("enqueue", "{not json")
    assert wrong.returncode == 2
    assert Shell("http://127.0.0.1:1", tmp_path).run("queue", "nonsense").returncode == 2


def test_shell_completes(tmp_path: Path) -> None:
    done = subprocess.run(
        [LANEWAY],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "_LANEWAY_COMPLETE": "complete_bash",
            "COMP_WORDS": "laneway queue d",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == {"delete", "dlq"}


def test_app_that_cannot_be_found_says_where_it_is_looked_for(local: Shell) -> None:
    (local.folder / "broken.py").write_text("import nosuch_library\n")
    (local.folder / "shop.py").write_text("app = None\n")
    problems = {
        "nosuch:app": "'nosuch:app' cannot be imported: No module named 'nosuch'. Run the command in the"
        " directory that contains it, or install it",
        "broken:app": "'broken:app' cannot be imported: No module named 'nosuch_library'. Install it",
        "shop:jobs": "'shop:jobs' cannot be imported: module 'shop' has no attribute 'jobs'. Name it as"
        " module:name",
        "shop": "'shop' is a NoneType, not a laneway.App: name it as module:name",
    }
    for place, problem in problems.items():
        done = local.run("worker", "run", place)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.removeprefix("laneway: ").removeprefix("app ") == f"{problem}\n"


def test_mistyped_variable_is_warned_of(place: Place, local: Shell, queue: str) -> None:
    local.variables = {"LANEWAY_SERVER_ULR": "http://127.0.0.1:1"}
    done = local.run("queue", "get", queue, "--url", place.url)
    assert (done.returncode, done.stderr) == (
        0,
        "laneway: variable LANEWAY_SERVER_ULR is not a setting: did you mean LANEWAY_SERVER_URL?\n",
    )
