package main

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/handler"
)

// small are the shapes of the benchmark with few callers.
func small() []shape {
	out := shapes()
	for i := range out {
		out[i].callers = 2
	}
	return out
}

func TestEveryMessageOfTheBenchmarkIsHandledByTheHandlerThatIsMeasured(t *testing.T) {
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, x := range small() {
		for _, stream := range []string{remote, local} {
			handled, calls := s.server.handled.Load(), s.server.calls.Load()
			n, err := s.process(t.Context(), x, stream, 10*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.server.handled.Load() - handled; int(got) != n || n < x.callers*x.size {
				t.Errorf("%s, %s: %d messages were handled, want the %d that were counted, at least %d", x.name, stream, got, n, x.callers*x.size)
			}
			if got := s.server.calls.Load() - calls; stream == local && got != 0 || stream == remote && int(got)*x.size != n {
				t.Errorf("%s, %s: %d calls for %d messages, want one for each batch over HTTP, and none in Go", x.name, stream, got, n)
			}
		}
	}
}

func TestABarePostHasTheDocumentOfTheSystem(t *testing.T) {
	for _, x := range small() {
		document, err := x.document()
		if err != nil {
			t.Fatal(err)
		}
		var handled atomic.Int64
		text, err := answered(strings.NewReader(string(document)), &handled)
		if err != nil || int(handled.Load()) != x.size {
			t.Errorf("%s: %d messages in the document: %v; want %d", x.name, handled.Load(), err, x.size)
		}
		var ids []string
		for _, m := range x.batch(remote, "0", 0, 0) {
			ids = append(ids, m.Identity())
		}
		a, err := handler.DecodeAnswer(text, "", ids)
		if err != nil {
			t.Fatalf("%s: the answer is not valid: %v", x.name, err)
		}
		var c counter
		if err := json.Unmarshal(a.State, &c); err != nil || c.Handled != 100+x.size {
			t.Errorf("%s: state %s, want %d handled", x.name, a.State, 100+x.size)
		}
	}
}

func TestTheBenchmarkPrintsARowForEachShapeWithAndWithoutTheQueue(t *testing.T) {
	var out strings.Builder
	if err := measure(t.Context(), options{rounds: 1, each: time.Millisecond, queued: 200}, &out); err != nil {
		t.Fatal(err)
	}
	for _, x := range shapes() {
		if n := strings.Count(out.String(), x.name); n != 2 {
			t.Errorf("%d rows of %q, want 2:\n%s", n, x.name, out.String())
		}
	}
}
