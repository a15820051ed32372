package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/deployed/stacktest"
	"github.com/effectively-once/once/internal/system/function/environment"
)

// loggedStack is a stack without tables and queues, whose functions have logs.
func loggedStack(t *testing.T) *stacktest.AWS {
	t.Helper()
	aws := stacktest.Start(t)
	for name := range strings.FieldsSeq("ApiUrl GroupsTable TokensTable Bucket IngressQueueUrl IngressFifoQueueUrl PublishQueueUrl PublishFifoQueueUrl " +
		"DeadQueueUrl DeadFifoQueueUrl DeadPublishQueueUrl DeadPublishFifoQueueUrl") {
		aws.Outputs[name] = "http://127.0.0.1:1/" + name
	}
	environment := map[string]string{environment.GroupsTable: "groups"}
	aws.Functions["process"] = stacktest.Function{Environment: environment, LogGroup: "process-logs"}
	aws.Functions["publish"] = stacktest.Function{Environment: environment}
	aws.Functions["ingest"] = stacktest.Function{Environment: environment} // never ran: it has no log group
	aws.Functions["other"] = stacktest.Function{LogGroup: "other-logs"}
	by := func(principal, id string) string {
		m := record.Message{Principal: principal, Stream: "orders", ID: id}
		return m.Hash()
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	at := func(ago time.Duration, format string, args ...any) stacktest.LogEvent {
		return stacktest.LogEvent{Time: now.Add(-ago), Text: fmt.Sprintf(format, args...) + "\n"}
	}
	aws.Logs = map[string][]stacktest.LogEvent{
		"process-logs": {
			at(2*time.Hour, `{"level":"WARN","message":"old","stream":"orders","hash":%q}`, by("", "o-1")),
			at(4*time.Minute, `{"timestamp":"t","level":"WARN","message":"message failed","function":"process","stream":"orders","hash":%q,"try":1,"error":"no \"ink\""}`, by("", "o-1")),
			at(3*time.Minute, `{"time":"t","type":"platform.report","record":{"requestId":"r","status":"success"}}`),
			at(3*time.Minute, `{"stream":"orders","level":"INFO","Retried":1,"_aws":{"Timestamp":1}}`),
			at(2*time.Minute, "START RequestId: r Version: $LATEST"),
			at(2*time.Minute, "REPORT RequestId: r\tDuration: 187 ms"),
			at(90*time.Second, `{"level":"WARN","message":"message failed","stream":"chat","hash":"abcabcabcabc"}`),
			at(time.Minute, `{"time":"t","type":"platform.report","record":{"requestId":"r","status":"timeout"}}`),
		},
		"/aws/lambda/publish": {
			at(2*time.Minute, `{"level":"ERROR","message":"effect failed","stream":"orders","hash":%q}`, by("iam:arn:aws:sts::000000000000:assumed-role/Operator", "o-1")),
			at(30*time.Second, "panic: out of paper\x1b[31m"),
		},
		"other-logs": {at(time.Minute, "not of the engine")},
	}
	return aws
}

func TestLogsAreOfAllFunctionsInTheOrderOfTime(t *testing.T) {
	aws := loggedStack(t)
	w := newWorld(t)
	run := func(want int, args ...string) string {
		t.Helper()
		if code := w.once(t.Context(), "", append([]string{"logs", "--stack", "Once"}, args...)...); code != want {
			t.Errorf("once logs %v: exit %d, want %d\n%s%s", args, code, want, w.out.String(), w.err.String())
		}
		return w.out.String()
	}
	// texts returns the lines without their times.
	texts := func(out string) string {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for i, l := range lines {
			_, lines[i], _ = strings.Cut(l, " ")
		}
		return strings.Join(lines, "\n")
	}
	m := record.Message{Stream: "orders", ID: "o-1"}
	first := "process WARN  message failed stream=\"orders\" hash=\"" + m.Hash() + "\" try=1 error=\"no \\\"ink\\\"\""
	m.Principal = "iam:arn:aws:sts::000000000000:assumed-role/Operator"
	second := "publish ERROR effect failed stream=\"orders\" hash=\"" + m.Hash() + "\""
	all := first + "\n" + second + "\nprocess WARN  message failed stream=\"chat\" hash=\"abcabcabcabc\"\n" +
		`process -     type="platform.report" record={"requestId":"r","status":"timeout"}` + "\npublish panic: out of paper"
	if got := texts(run(exitOK)); !strings.HasPrefix(got, all) || strings.Contains(got, "\x1b") {
		t.Errorf("all: %s", got)
	}
	if got := texts(run(exitOK, "orders", "--id", "o-1")); got != first+"\n"+second {
		t.Errorf("one message, of any sender: %s", got)
	}
	if got := texts(run(exitOK, "orders", "--id", "o-1", "--principal", "")); got != first {
		t.Errorf("one message by SQS: %s", got)
	}
	if got := texts(run(exitOK, "--hash", m.Hash())); got != second {
		t.Errorf("a hash: %s", got)
	}
	if got := texts(run(exitOK, "orders")); got != first+"\n"+second {
		t.Errorf("a stream: %s", got)
	}
	if got := run(exitOK, "orders", "--since", "1d"); strings.Count(got, "\n") != 3 {
		t.Errorf("a day: %s", got)
	}
	if got := texts(run(exitOK, "--limit", "2")); got != first+"\n"+second || !strings.Contains(w.err.String(), "there are more lines: continue with --since 20") {
		t.Errorf("a limit: %s, %s", got, w.err.String())
	}
	run(exitOK, "--limit", "5")
	if strings.Contains(w.err.String(), "more lines") {
		t.Errorf("as many as the limit: %s", w.err.String())
	}
	if got := run(exitOK, "nothing"); got != "" || !strings.Contains(w.err.String(), "no lines since") {
		t.Errorf("no lines: %q, %q", got, w.err.String())
	}
	aws.Denied = []string{"FilterLogEvents"}
	run(exitRefused)
	for _, want := range []string{"logs:FilterLogEvents", "log group"} {
		if !strings.Contains(w.err.String(), want) {
			t.Errorf("no %q in %q", want, w.err.String())
		}
	}
}

func TestLogsAsJSONHaveTheLoggedObjectOrText(t *testing.T) {
	loggedStack(t)
	w := newWorld(t)
	if code := w.once(t.Context(), "", "logs", "--stack", "Once", "--json"); code != exitOK {
		t.Fatal(w.err.String())
	}
	lines := strings.Split(strings.TrimSpace(w.out.String()), "\n")
	var first, last struct {
		Time     time.Time `json:"time"`
		Function string    `json:"function"`
		LogGroup string    `json:"log_group"`
		Line     any       `json:"line"`
	}
	for line, to := range map[string]any{lines[0]: &first, lines[len(lines)-1]: &last} {
		if err := json.Unmarshal([]byte(line), to); err != nil {
			t.Fatal(err, line)
		}
	}
	if object, ok := first.Line.(map[string]any); !ok || object["try"] != 1.0 || first.Function != "process" || first.LogGroup != "process-logs" || first.Time.IsZero() {
		t.Errorf("got %+v", first)
	}
	if last.Line != "panic: out of paper\x1b[31m" {
		t.Errorf("got %+v", last)
	}
}

func TestFlagsOfLogsAreCheckedBeforeAnyCall(t *testing.T) {
	stacktest.Start(t).Stack = ""
	w := newWorld(t)
	for _, c := range []struct{ args, want string }{
		{"logs", "name the stack with --stack"},
		{"logs --stack Once --id o-1", "--id needs the message's stream"},
		{"logs orders --stack Once --id o-1 --hash 2f1a9c0b7d44", "--id and --hash exclude each other"},
		{"logs --stack Once --hash hello", "--hash"},
		{"logs --stack Once --principal x", "--principal needs --id"},
		{"logs --stack Once --since soon", `--since "soon" must be a duration`},
		{"logs --stack Once --since -1h", "must be a duration"},
		{"logs --stack Once --limit 0", "--limit must be at least 1"},
		{"logs or/ders --stack Once", "stream"},
		{"logs --stack Once --since 2026-01-02T15:04:05Z", "there is no stack Once"},
	} {
		if code := w.once(t.Context(), "", strings.Fields(c.args)...); code != exitUsage || !strings.Contains(w.err.String(), c.want) {
			t.Errorf("once %s: exit %d, %q", c.args, code, w.err.String())
		}
	}
}
