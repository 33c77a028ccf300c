from airlock.model import RunStarted, Status
from airlock.tools.run_answer import EXAMPLE, RunAnswer, RunText, Transcript, answer_without_text, replay
from unit.api.serving import finished

ANSWER = RunAnswer.model_validate(EXAMPLE)


def test_pieces_are_put_together():
    transcript = Transcript()
    for text in (RunText("stdout", 0, "a"), RunText("stderr", 0, "b"), RunText("stdout", 1, "c")):
        transcript.add(text)
    answer = transcript.complete(answer_without_text(finished()))
    assert (answer.stdout, answer.stderr) == ("ac", "b")


def test_a_replay_has_the_same_pieces():
    events = list(replay(ANSWER))
    assert events == [
        RunStarted(ANSWER.run_id, ANSWER.sandbox),
        RunText("stdout", 0, "1\n"),
        ANSWER.model_copy(update={"stdout": ""}),
    ]
    transcript = Transcript()
    transcript.add(events[1])
    assert transcript.complete(events[2]) == ANSWER


def test_an_unknown_outcome_makes_nothing_up():
    answer = answer_without_text(finished(status=Status.LOST, exit_code=None, signal=None, usage=None))
    assert answer.model_dump(include={"status", "exit_code", "signal", "usage"}) == {
        "status": "lost",
        "exit_code": None,
        "signal": None,
        "usage": None,
    }
