package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain makes the test binary the server and the consumers too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
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
