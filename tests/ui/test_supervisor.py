"""Jobs in a process that may hang, grow and die: the supervisor outlives all of it.

The workers here are small programs that speak the protocol and misbehave on purpose.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ui.supervisor import Job, Limits, Supervisor

WORKER = """
import json, os, signal, sys, threading, time

def say(**answer):
    print(json.dumps(answer), flush=True)

cancelled = set()
queue = []

def read():
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("command") == "cancel":
            cancelled.add(request["of"])
        else:
            queue.append(request)
    os._exit(0)

threading.Thread(target=read, daemon=True).start()
print("not json", flush=True)
say(event="ready")
while True:
    if not queue:
        time.sleep(0.005)
        continue
    request = queue.pop(0)
    id, model = request["id"], request["model"]
    say(id=id, event="progress", phase="pass", name="fuse", done=1, of=2)
    if model == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif model == "exit":
        sys.exit(7)
    elif model == "hang":
        time.sleep(60)
    elif model == "grow":
        data = bytearray(300_000_000)
        data[::4096] = b"x" * len(data[::4096])
        time.sleep(60)
    elif model == "patient":
        while id not in cancelled:
            time.sleep(0.005)
        cancelled.discard(id)
        say(id=id, event="cancelled")
    elif model == "fail":
        say(id=id, event="error", error={"message": "model.truncated", "parameters": {}})
    else:
        say(id=id, event="result", pid=os.getpid(), compiled=request.get("kernels", 1))
"""

Make = Callable[..., Supervisor]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes supervisors with limits of the test's own, and ends them."""
    program = tmp_path / "worker.py"
    program.write_text(WORKER)
    made: list[Supervisor] = []

    def new(**limits: float) -> Supervisor:
        chosen = Limits(**{"abandoned": 30, **limits})  # pyright: ignore[reportArgumentType]
        made.append(Supervisor([sys.executable, str(program)], tmp_path, chosen))
        return made[-1]

    yield new
    for supervisor in made:
        supervisor.close()


def submit(supervisor: Supervisor, model: str, **more: int) -> Job:
    return supervisor.submit({"command": "compile", "model": model, **more})


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for 20 s"
        time.sleep(0.01)


def end(job: Job) -> Mapping[str, object]:
    wait(lambda: job.done)
    return job.events[-1]


def message(job: Job) -> object:
    error = end(job)["error"]
    assert isinstance(error, dict)
    return error["message"]


def kinds(job: Job) -> list[object]:
    return [event["event"] for event in job.events]


def test_a_job_is_queued_started_and_ends_with_its_result(make: Make) -> None:
    supervisor = make()
    job = submit(supervisor, "good")
    assert end(job)["event"] == "result"
    assert kinds(job) == ["queued", "started", "progress", "result"]
    assert supervisor.job(job.token) is job
    assert supervisor.job("unknown") is None


def test_jobs_run_one_after_the_other_and_hear_their_place(make: Make) -> None:
    supervisor = make()
    first = submit(supervisor, "patient")
    wait(lambda: "progress" in kinds(first))
    second, third = submit(supervisor, "good"), submit(supervisor, "good")
    assert second.events[-1] == {"event": "queued", "position": 1}, "the one that runs counts"
    assert third.events[-1] == {"event": "queued", "position": 2}
    fourth = submit(supervisor, "good")
    supervisor.cancel(second.token)
    assert end(second) == {"event": "cancelled"}
    assert third.events[-1] == {"event": "queued", "position": 1}
    assert fourth.events[-1] == {"event": "queued", "position": 2}
    assert set(kinds(third)) == {"queued"}, "a job waits until the one before it has ended"
    supervisor.cancel(first.token)
    assert end(first) == {"event": "cancelled"}
    assert end(third)["event"] == "result"
    assert end(fourth)["event"] == "result"
    assert {"event": "queued", "position": 1} in fourth.events
    assert supervisor.submit({"command": "compile", "model": "good"}).events[0] == {
        "event": "queued", "position": 0,
    }  # fmt: skip


def test_a_background_job_gives_way_and_starts_over(make: Make) -> None:
    supervisor = make()
    background = supervisor.submit({"command": "measure", "model": "patient"}, background=True)
    wait(lambda: "progress" in kinds(background))
    later = supervisor.submit({"command": "measure", "model": "good"}, background=True)
    assert later.events[-1] == {"event": "queued", "position": 1}
    job = submit(supervisor, "good")
    assert job.events[0] == {"event": "queued", "position": 0}, "what gives way does not count"
    assert end(job)["event"] == "result"
    wait(lambda: kinds(background).count("started") == 2)
    assert not background.done and "started" not in kinds(later), "it stays ahead of later ones"
    supervisor.cancel(background.token)
    assert end(background) == {"event": "cancelled"}
    assert end(later)["event"] == "result"


def test_a_background_job_that_does_not_stop_loses_its_process(make: Make) -> None:
    supervisor = make(grace=0.2)
    background = supervisor.submit({"command": "measure", "model": "hang"}, background=True)
    wait(lambda: "progress" in kinds(background))
    assert end(submit(supervisor, "good"))["event"] == "result"
    wait(lambda: kinds(background).count("started") == 2)
    supervisor.cancel(background.token)
    assert end(background) == {"event": "cancelled"}


def test_what_never_changes_is_asked_for_once(make: Make) -> None:
    supervisor = make(kept=0)
    request = {"command": "targets", "model": "good"}
    first = supervisor.once(request)
    assert end(first)["event"] == "result"
    end(submit(supervisor, "good"))
    submit(supervisor, "good")
    assert supervisor.once(dict(request)) is first
    assert supervisor.job(first.token) is first, "it is not forgotten"
    assert supervisor.once({**request, "model": "fail"}) is not first


def test_a_failure_is_not_kept_as_the_answer(make: Make) -> None:
    supervisor = make()
    request = {"command": "targets", "model": "fail"}
    first = supervisor.once(request)
    assert end(first)["event"] == "error"
    assert supervisor.once(request) is not first


def test_a_failing_job_leaves_the_worker_as_it_is(make: Make) -> None:
    supervisor = make()
    pid = end(submit(supervisor, "good"))["pid"]
    assert message(submit(supervisor, "fail")) == "model.truncated"
    assert end(submit(supervisor, "good"))["pid"] == pid


@pytest.mark.parametrize(("model", "how"), [("die", "SIGSEGV"), ("exit", "status 7")])
def test_a_dying_worker_says_how_and_the_next_job_runs(make: Make, model: str, how: str) -> None:
    supervisor = make()
    job = submit(supervisor, model)
    assert message(job) == "job.died"
    error = job.events[-1]["error"]
    assert isinstance(error, dict) and error["parameters"] == {"how": how}
    assert end(submit(supervisor, "good"))["event"] == "result"


def test_a_job_that_takes_too_long_is_killed(make: Make) -> None:
    supervisor = make(time=0.5)
    assert message(submit(supervisor, "hang")) == "job.time"
    assert end(submit(supervisor, "good"))["event"] == "result"


def test_a_job_that_grows_too_large_is_killed(make: Make) -> None:
    supervisor = make(memory=150_000_000)
    assert message(submit(supervisor, "grow")) == "job.memory"
    assert end(submit(supervisor, "good"))["event"] == "result"


def test_a_cancelled_job_that_does_not_stop_is_killed(make: Make) -> None:
    supervisor = make(grace=0.2)
    job = submit(supervisor, "hang")
    wait(lambda: "progress" in kinds(job))
    assert supervisor.cancel(job.token)
    assert end(job) == {"event": "cancelled"}
    assert not supervisor.cancel(job.token)
    assert end(submit(supervisor, "good"))["event"] == "result"


def test_a_job_cancelled_while_it_waits_never_starts(make: Make) -> None:
    supervisor = make()
    first = submit(supervisor, "patient")
    wait(lambda: "started" in kinds(first))
    waiting = submit(supervisor, "good")
    supervisor.cancel(waiting.token)
    assert waiting.events[-1] == {"event": "cancelled"}, "it ends at once"
    supervisor.cancel(first.token)
    assert end(first) == {"event": "cancelled"}
    assert "started" not in kinds(waiting)


def test_a_job_that_nobody_listens_to_is_cancelled(make: Make) -> None:
    supervisor = make(abandoned=0.3, grace=0.2)
    heard = submit(supervisor, "patient")
    heard.listen(1)
    wait(lambda: "progress" in kinds(heard))
    time.sleep(0.6)
    assert not heard.done, "somebody listens"
    heard.listen(-1)
    assert end(heard) == {"event": "cancelled"}


def test_a_worker_is_replaced_after_many_kernels(make: Make) -> None:
    supervisor = make(kernels=10)
    first = end(submit(supervisor, "good", kernels=6))["pid"]
    assert end(submit(supervisor, "good", kernels=6))["pid"] == first
    assert end(submit(supervisor, "good", kernels=1))["pid"] != first


def test_more_jobs_than_may_wait_are_refused(make: Make) -> None:
    supervisor = make(waiting=1)
    running = submit(supervisor, "patient")
    wait(lambda: "started" in kinds(running))
    waiting, refused = submit(supervisor, "good"), submit(supervisor, "good")
    assert message(refused) == "job.busy"
    supervisor.cancel(running.token)
    assert end(waiting)["event"] == "result"


def test_finished_jobs_are_forgotten_in_the_end(make: Make) -> None:
    supervisor = make(kept=2)
    jobs = [submit(supervisor, "good") for _ in range(4)]
    for job in jobs:
        end(job)
    submit(supervisor, "good")
    assert supervisor.job(jobs[0].token) is None
    assert supervisor.job(jobs[3].token) is jobs[3]


def test_closing_ends_the_processes_and_the_jobs(make: Make) -> None:
    supervisor = make(grace=0.2)
    running, waiting = submit(supervisor, "hang"), submit(supervisor, "good")
    wait(lambda: "started" in kinds(running))
    supervisor.close()
    assert end(running) == {"event": "cancelled"}
    assert end(waiting) == {"event": "cancelled"}
