package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/deployed/stacktest"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

const deployedConfig = `streams: {orders: {}, chat: {admission: sequence}}` + "\n"

// deployedStack returns a stack, and the configuration file with which it was deployed.
func deployedStack(t *testing.T) (aws *stacktest.AWS, file string) {
	t.Helper()
	aws = stacktest.Start(t)
	aws.Deploy(t, deployedConfig)
	file = filepath.Join(t.TempDir(), "once.yaml")
	if err := os.WriteFile(file, []byte(deployedConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return aws, file
}

func TestCommandsWorkOnADeployedStack(t *testing.T) {
	aws, file := deployedStack(t)
	w := newWorld(t)
	run := func(want int, args ...string) string {
		t.Helper()
		if code := w.once(t.Context(), "", append(args, "--stack", "Once")...); code != want {
			t.Errorf("once %v: exit %d, want %d\n%s%s", args, code, want, w.out.String(), w.err.String())
		}
		return w.out.String()
	}
	if out := run(exitOK, "send", "orders", `{"item":7}`, "--key", "o-1", "--url", w.url); !strings.HasPrefix(out, "accepted o-1") {
		t.Errorf("by the API: %q", out)
	}
	if out := run(exitOK, "send", "orders", `{"item":7}`, "--key", "o-1", "--queue", "fifo"); out != "queued o-1 in orders\n" {
		t.Errorf("by the queue: %q", out)
	}
	if out := run(exitOK, "send", "orders", "--file", "testdata/files/good.jsonl", "--queue", "standard"); out != "5 messages: 5 accepted, 0 replayed, 0 failed\n" {
		t.Errorf("a file: %q", out)
	}
	if out := run(exitOK, "show", "--config", file); !strings.Contains(out, "at work, 0 dead letters") {
		t.Errorf("totals: %q", out)
	}
	if out := run(exitOK, "show", "--dead-letters", "--config", file, "--json"); out != "[]\n" {
		t.Errorf("dead letters: %q", out)
	}
	run(exitUnknown, "show", "orders", "--id", "o-1", "--config", file)
	if out := run(exitOK, "sweep", "--config", file, "--json"); !strings.Contains(out, `"groups": 0`) {
		t.Errorf("sweep: %q", out)
	}
	if out := run(exitOK, "redrive", "--config", file); out != "put back 0 dead letters; 0 left, 0 failed\n" {
		t.Errorf("redrive: %q", out)
	}
	aws.Functions["process"] = stacktest.Function{Environment: aws.Functions["process"].Environment}
	var checked checkedStack
	if err := json.Unmarshal([]byte(run(exitFailed, "check", "--json")), &checked); err != nil || checked.Healthy || len(checked.Findings) < 15 {
		t.Errorf("check: %+v, %v", checked, err)
	}
}

func TestARedriveOfAStackShowsItsProgress(t *testing.T) {
	aws, file := deployedStack(t)
	w := newWorld(t)
	w.terminal = true
	calls := 0
	answer := func(function string, f func() any) {
		x := aws.Functions[function]
		x.Invoke = func([]byte) any { return f() }
		aws.Functions[function] = x
	}
	answer("process", func() any {
		calls++
		return tasks.Redriven{Redriven: 40, Failed: calls - 1, Failures: []deadletter.Failure{{MessageID: "m-1", Error: "out of ink"}}[:calls-1], Done: calls == 2}
	})
	answer("publish", func() any { return errors.New("out of order") })
	run := func(want int, args ...string) string {
		t.Helper()
		calls = 0
		if code := w.once(t.Context(), "", append([]string{"redrive", "--stack", "Once", "--config", file}, args...)...); code != want {
			t.Errorf("exit %d, want %d\n%s%s", code, want, w.out.String(), w.err.String())
		}
		return w.out.String()
	}
	const want = "put back 80 dead letters; 0 left, 1 failed\n\n" +
		"NOT PUT BACK  QUEUE         STREAM  ERROR\nm-1           ingress-dead  -       out of ink\n"
	if out := run(exitIncomplete, "--queue", "ingress-dead"); out != want {
		t.Errorf("output %q", out)
	}
	for _, want := range []string{"putting back"} {
		if !strings.Contains(w.err.String(), want) {
			t.Errorf("no %q in %q", want, w.err.String())
		}
	}
	if out := run(exitFailed, "--queue", "publish-dead", "--json"); out != "" {
		t.Errorf("nothing was done, but it says %q", out)
	}
	answer("process", func() any { return tasks.Redriven{Redriven: 1, Done: true} })
	if out := run(exitFailed, "--json"); !strings.Contains(out, `"redriven": 2`) || !strings.Contains(w.err.String(), "function publish failed") {
		t.Errorf("what was done before a failure: %q, %q", out, w.err.String())
	}
	answer("process", func() any { return tasks.Redriven{} })
	run(exitIncomplete)
}

func TestFlagsOfAStackAreCheckedBeforeAnyCall(t *testing.T) {
	stacktest.Start(t).Stack = ""
	w := newWorld(t)
	for _, c := range []struct {
		args string
		want string
	}{
		{"show --profile prod", "--profile needs --stack"},
		{"sweep --stack Once --data .once", "--stack and --data exclude each other"},
		{"redrive --stack Once", "there is no stack Once in us-east-1"},
		{"sweep --stack Once --config nope.yaml", "nope.yaml"},
		{"show --stack Once --config testdata/files/shop.yaml", "there is no stack Once in us-east-1"},
		{"show orders --id o-1 --principal iam:x", "--principal needs --stack"},
		{"send orders 1 --queue fifo", "--queue needs --stack"},
		{"send orders 1 --stack Once --queue fast", "--queue must be fifo or standard"},
		{"send orders 1 --stack Once --queue fifo --wait 1s", "--queue and --wait exclude each other"},
		{"send orders 1 --stack Once", "there is no stack Once in us-east-1"},
		{"check --region eu-west-1", "--region needs --stack"},
	} {
		if code := w.once(t.Context(), "", strings.Fields(c.args)...); code != exitUsage || !strings.Contains(w.err.String(), c.want) {
			t.Errorf("once %s: exit %d, %q", c.args, code, w.err.String())
		}
	}
}

func TestARefusalByAWSAndAnUnreachableAWSHaveDifferentExitCodes(t *testing.T) {
	aws := stacktest.Start(t)
	w := newWorld(t)
	aws.Denied = []string{"DescribeStacks"}
	if code := w.once(t.Context(), "", "check", "--stack", "Once", "--config", "testdata/files/shop.yaml"); code != exitRefused {
		t.Errorf("denied: exit %d, %s", code, w.err.String())
	}
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", "http://127.0.0.1:1")
	if code := w.once(t.Context(), "", "check", "--stack", "Once", "--config", "testdata/files/shop.yaml"); code != exitAway {
		t.Errorf("away: exit %d, %s", code, w.err.String())
	}
}

func TestFindingsDecideTheExitCode(t *testing.T) {
	ok, wrong, unknown := deployed.Finding{Verdict: deployed.OK}, deployed.Finding{Verdict: deployed.Wrong}, deployed.Finding{Verdict: deployed.Unknown}
	for _, c := range []struct {
		findings []deployed.Finding
		want     int
	}{
		{[]deployed.Finding{ok}, exitOK},
		{[]deployed.Finding{ok, unknown}, exitIncomplete},
		{[]deployed.Finding{unknown, wrong, ok}, exitFailed},
	} {
		got := exitOK
		if err := verdictOfFindings(c.findings); err != nil {
			got = codeOf(err)
		}
		if got != c.want {
			t.Errorf("%+v: exit %d, want %d", c.findings, got, c.want)
		}
	}
}

func TestAnAPIWithAnotherAuthorizationIsExplained(t *testing.T) {
	s := signed{refusing{&client.Problem{Status: 403, Title: "Forbidden", Ambiguous: true}}}
	if _, err := s.Send(t.Context(), client.Message{}); codeOf(err) != exitAway || !strings.Contains(err.Error(), "execute-api:Invoke") {
		t.Errorf("got %v", err)
	}
}

// refusing refuses every message.
type refusing struct{ err error }

func (r refusing) Send(context.Context, client.Message) (client.Receipt, error) {
	return client.Receipt{}, r.err
}
