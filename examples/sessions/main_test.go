package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asCommand is the variable that makes the test binary the command.
const asCommand = "SESSIONS_COMMAND"

// TestMain makes the test binary the server and the consumers too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") || os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// playSmall is the run of the command with fewer messages.
func playSmall(t *testing.T, o options) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.self, o.dir, o.progress = self, t.TempDir(), t.Output()
	if o.consumer == nil {
		o.consumer = []string{self, "consume"}
	}
	if o.source == "" {
		o.source = filepath.Join(o.dir, "rows.db")
	}
	r, err := play(context.WithoutCancel(t.Context()), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.print(t.Output()); err != nil {
		t.Error(err)
	}
	for _, f := range plan(o.faults) {
		if len(r.took[f]) == 0 {
			t.Errorf("%q has not happened", f)
		}
	}
}

func TestEachMessageIsOneRowOfSQLiteUnderFaults(t *testing.T) {
	playSmall(t, options{messages: 40_000, consumers: 8, faults: 20})
}

func TestEachMessageIsOneRowOfPostgreSQLUnderFaults(t *testing.T) {
	source := os.Getenv("POSTGRES_URL")
	if source == "" {
		t.Skip("POSTGRES_URL is not set: localstack/postgres.sh run go -C examples/sessions test")
	}
	playSmall(t, options{messages: 40_000, consumers: 8, faults: 20, source: source})
}

func TestEachMessageIsOneRowOfAConsumerInPythonUnderFaults(t *testing.T) {
	python := os.Getenv("SESSIONS_PYTHON")
	if python == "" {
		t.Skip("SESSIONS_PYTHON is not set: eval \"$(examples/sessions/python.sh)\" installs what the consumer needs")
	}
	playSmall(t, options{messages: 10_000, consumers: 4, faults: 20, consumer: []string{python, "consumer.py"}})
}

func TestArgumentsThatCannotBeRunAreRefused(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"-consumers 0 -messages 10": "-consumers 0: nothing would process the messages",
		"-consumers 1 -messages 10": "take at least 2, or -faults 0",
		"-messages 0":               "-messages 0: send at least 1",
		"-faults -1":                "-faults -1: 0 is the fewest",
		"20000":                     `unexpected argument "20000"`,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, self, strings.Fields(args)...)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", args, err, out)
		}
	}
	if err := (&options{messages: 1, consumers: 1}).check(nil); err != nil {
		t.Error(err)
	}
}

func TestARowThatIsMissingOrDoubledIsAnError(t *testing.T) {
	for _, r := range []result{{messages: 3, rows: 3, ids: 2}, {messages: 3, rows: 4, ids: 3}, {messages: 3, rows: 2, ids: 2}} {
		if r.print(t.Output()) == nil {
			t.Errorf("no error about %+v", r)
		}
	}
	if err := (&result{messages: 3, rows: 3, ids: 3}).print(t.Output()); err != nil {
		t.Error(err)
	}
}
