"""A client of proctor.v1: opens a session on a workspace, runs its tests, follows the events and prints the failures.

Usage: client.py [--target ADDRESS] [--token-file FILE] [--filter EXPRESSION] WORKSPACE

The exit status is that of the run: 0 only if it passed.
"""

import argparse
import pathlib
import sys

import grpc
from proctor.v1 import results_pb2, results_pb2_grpc, runs_pb2, runs_pb2_grpc, sessions_pb2, sessions_pb2_grpc, types_pb2

# Largest message that the supervisor sends, in bytes: a report can be larger than gRPC's default of 4 MiB.
MESSAGE_BYTES_MAX = 64 << 20

# How often a lost event stream is resumed.
RESUME_MAX = 3


def run_tests(runs: runs_pb2_grpc.RunsStub, request: runs_pb2.RunTestsRequest, metadata: list) -> types_pb2.Report:
    """Starts a run and follows its events to the report. A lost stream is resumed after the last event."""
    stream, run_id, cursor, resumed = runs.RunTests(request, metadata=metadata), "", 0, 0
    while True:
        try:
            for event in stream:
                run_id, cursor = event.run_id, event.sequence + 1
                kind = event.WhichOneof("event")
                if kind == "queued":
                    print(f"queued at position {event.queued.position}")
                elif kind == "test_finished":
                    test = event.test_finished
                    outcome = types_pb2.TestOutcome.Name(test.outcome).removeprefix("TEST_OUTCOME_").lower()
                    print(f"{outcome:7} {test.nodeid}")
                elif kind == "finished":
                    return event.finished
        except grpc.RpcError as error:
            # Without an event there is no run to resume: the error is the answer to the request.
            if error.code() != grpc.StatusCode.UNAVAILABLE or not run_id or resumed == RESUME_MAX:
                raise
        resumed += 1
        if not run_id or resumed > RESUME_MAX:
            raise RuntimeError("the event stream ended without a report")
        stream = runs.WatchRun(runs_pb2.WatchRunRequest(run_id=run_id, cursor=cursor), metadata=metadata)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="unix:/run/proctor/proctor.sock", help="address of the supervisor")
    parser.add_argument("--token-file", type=pathlib.Path, help="file with the tenant's bearer token, for TCP")
    parser.add_argument("--filter", default="", help="filter expression in the runner's own syntax")
    parser.add_argument("workspace")
    arguments = parser.parse_args()

    metadata = []
    if arguments.token_file:
        metadata.append(("authorization", f"Bearer {arguments.token_file.read_text().strip()}"))
    # A unix socket or loopback needs no TLS; elsewhere use grpc.secure_channel.
    options = [("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)]
    with grpc.insecure_channel(arguments.target, options=options) as channel:
        # All callers of the tenant share this session, unless `separate` is set.
        request = sessions_pb2.CreateSessionRequest(workspace=arguments.workspace)
        session_id = sessions_pb2_grpc.SessionsStub(channel).CreateSession(request, metadata=metadata).session.session_id

        request = runs_pb2.RunTestsRequest(session_id=session_id, filter=arguments.filter)
        report = run_tests(runs_pb2_grpc.RunsStub(channel), request, metadata)

        request = results_pb2.LastTestFailuresRequest(session_id=session_id)
        answer = results_pb2_grpc.ResultsStub(channel).LastTestFailures(request, metadata=metadata)
    for failure in answer.failures:
        print(f"{failure.nodeid}\n  {failure.file}:{failure.line}\n  {failure.message}")
        if failure.HasField("expected") or failure.HasField("actual"):
            print(f"  got {failure.actual}, want {failure.expected}")
    outcome = types_pb2.Outcome.Name(report.outcome).removeprefix("OUTCOME_").lower()
    counts = f"{report.summary.passed} passed, {report.summary.failed} failed"
    print(f"{outcome}: {counts} ({report.framework}, {report.duration_s:.1f}s)")
    return report.exit_code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
