"""Says in a few constant words why a turn failed, so that equal failures can be counted."""

from voicebench.metrics.results import TurnResult


def what_failed(turn: TurnResult) -> str:
    """The failure of a turn that did not pass (VB10, VB12, VB13, VB16)."""
    if turn.trigger == "not_played":
        return "not played"
    if "error" in turn.status.values():
        return "could not be measured"
    if turn.expect == "ignore":
        if turn.false_barge_in:
            return "false barge-in"
        return "spurious response" if turn.spurious_response else "agent was silent"
    if turn.expect == "listen":
        return "agent was silent"
    if turn.expect == "stop":
        return "stopped too late" if turn.stopped or turn.stop_latency_ms is not None else "did not stop"
    if turn.talk_over:
        return "talked over the caller"
    return "answered, but failed" if turn.responded else "no response"
