"""The page's worker, `python -m ui.worker`: what the compiler's does, and exercises of lessons.

    {"id": 3, "command": "exercise", "lesson": ID, "exercise": ID, "submission": {…}}
        -> progress with `phase` "check" and the check, one after the other; then the whole report
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping

from compiler.trace import Json
from compiler.worker import Request, RequestError, Told, main
from lessons.checks import Outcome, SubmissionError, check


def exercise(request: Request, told: Told, cancel: threading.Event) -> Mapping[str, Json]:
    """Grade a submission; RequestError where it cannot be graded."""
    done = 0

    def heard(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        told({"phase": "check", "done": done, "check": outcome.to_json()})

    try:
        report = check(
            str(request.get("lesson")), str(request.get("exercise")), request.get("submission"),
            told=heard, cancel=cancel,
        )  # fmt: skip
    except KeyError as error:
        raise RequestError(f"there is no lesson or exercise {error}") from error
    except SubmissionError as error:
        raise RequestError(str(error)) from error
    return report.to_json()


if __name__ == "__main__":
    sys.exit(main({"exercise": exercise}))
