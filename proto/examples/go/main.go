// A client of proctor.v1: opens a session on a workspace, runs its tests, follows the events and prints the failures.
//
// Usage: client [--target ADDRESS] [--token-file FILE] [--filter EXPRESSION] WORKSPACE
//
// The exit status is that of the run: 0 only if it passed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "proctor.example/client/proctorv1"
)

// Largest message that the supervisor sends, in bytes: a report can be larger than grpc-go's default of 4 MiB.
const messageBytesMax = 64 << 20

// How often a lost event stream is resumed.
const resumeMax = 3

func main() {
	target := flag.String("target", "unix:/run/proctor/proctor.sock", "address of the supervisor")
	tokenFile := flag.String("token-file", "", "file with the tenant's bearer token, for TCP")
	filter := flag.String("filter", "", "filter expression in the runner's own syntax")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	exitCode, err := run(context.Background(), *target, *tokenFile, *filter, flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, describe(err))
		os.Exit(2)
	}
	os.Exit(exitCode)
}

func run(ctx context.Context, target, tokenFile, filter, workspace string) (int, error) {
	options := []grpc.DialOption{
		// A unix socket or loopback needs no TLS; elsewhere use credentials.NewTLS.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax)),
	}
	if tokenFile != "" {
		text, err := os.ReadFile(tokenFile)
		if err != nil {
			return 0, err
		}
		options = append(options, grpc.WithPerRPCCredentials(token(strings.TrimSpace(string(text)))))
	}
	connection, err := grpc.NewClient(target, options...)
	if err != nil {
		return 0, err
	}
	defer connection.Close()

	// All callers of the tenant share this session, unless Separate is set.
	created, err := pb.NewSessionsClient(connection).CreateSession(ctx, &pb.CreateSessionRequest{Workspace: workspace})
	if err != nil {
		return 0, err
	}
	sessionID := created.Session.SessionId

	report, err := runTests(ctx, pb.NewRunsClient(connection), &pb.RunTestsRequest{SessionId: sessionID, Filter: filter})
	if err != nil {
		return 0, err
	}
	failures, err := pb.NewResultsClient(connection).LastTestFailures(ctx, &pb.LastTestFailuresRequest{SessionId: sessionID})
	if err != nil {
		return 0, err
	}
	for _, failure := range failures.Failures {
		fmt.Printf("%s\n  %s:%d\n  %s\n", failure.Nodeid, failure.GetFile(), failure.GetLine(), failure.Message)
		if failure.Expected != nil || failure.Actual != nil {
			fmt.Printf("  got %s, want %s\n", failure.GetActual(), failure.GetExpected())
		}
	}
	outcome := strings.ToLower(strings.TrimPrefix(report.Outcome.String(), "OUTCOME_"))
	fmt.Printf("%s: %d passed, %d failed (%s, %.1fs)\n",
		outcome, report.Summary.GetPassed(), report.Summary.GetFailed(), report.Framework, report.DurationS)
	return int(report.ExitCode), nil
}

// runTests starts a run and follows its events to the report. A lost stream is resumed after the last event.
func runTests(ctx context.Context, runs pb.RunsClient, request *pb.RunTestsRequest) (*pb.Report, error) {
	var stream grpc.ServerStreamingClient[pb.RunEvent]
	stream, err := runs.RunTests(ctx, request)
	if err != nil {
		return nil, err
	}
	runID, next := "", uint64(0)
	for resumed := 0; ; {
		event, err := stream.Recv()
		if err != nil {
			lost := status.Code(err) == codes.Unavailable || errors.Is(err, io.EOF)
			// Without an event there is no run to resume: the error is the answer to the request.
			if !lost || runID == "" || resumed == resumeMax {
				return nil, err
			}
			resumed++
			stream, err = runs.WatchRun(ctx, &pb.WatchRunRequest{RunId: runID, Cursor: next})
			if err != nil {
				return nil, err
			}
			continue
		}
		runID, next = event.RunId, event.Sequence+1
		switch event := event.Event.(type) {
		case *pb.RunEvent_Queued:
			fmt.Printf("queued at position %d\n", event.Queued.Position)
		case *pb.RunEvent_TestFinished:
			test := event.TestFinished
			outcome := strings.ToLower(strings.TrimPrefix(test.Outcome.String(), "TEST_OUTCOME_"))
			fmt.Printf("%-7s %s\n", outcome, test.Nodeid)
		case *pb.RunEvent_Finished:
			return event.Finished, nil
		}
	}
}

// describe adds the machine-readable reason and the retry delay to an error.
func describe(err error) string {
	text := err.Error()
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			text += fmt.Sprintf("; reason %s", detail.Reason)
		case *errdetails.RetryInfo:
			text += fmt.Sprintf("; try again in %s", detail.RetryDelay.AsDuration())
		}
	}
	return text
}

// token sends a bearer token with every call.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

// RequireTransportSecurity allows loopback TCP and unix sockets.
func (t token) RequireTransportSecurity() bool { return false }
