package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

const few = 10

func TestUnderEveryFaultOnceLosesAndDoublesNothingAndASimplerConsumerDoes(t *testing.T) {
	if os.Getenv(endpointVariable) == "" {
		t.Skipf("%s is not set: localstack/dynamodb-local.sh up starts a DynamoDB to run on", endpointVariable)
	}
	in, leave, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := leave(); err != nil {
			t.Error(err)
		}
	})
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// Only kills and stops hit the process of a handler.
	results := conductFew(t, in, root, []string{nameOncePython, nameOnceTS}, []fault{killed, stalled})
	results = append(results, conductFew(t, in, root, []string{nameOnce, nameOnceFIFO, nameCheck}, faults())...)
	for _, r := range results {
		check(t, r)
	}
	// each send that fails is one, and half of the lost answers
	if n := sum(results, nameCheck).StateDoubled; n < few+few/2 {
		t.Errorf("the simpler consumer doubled %d changes: the faults have not reached it", n)
	}
}

// conductFew plays all trials concurrently: they mostly wait.
func conductFew(t *testing.T, in place, root string, names []string, kinds []fault) []result {
	t.Helper()
	consumers, err := build(t.Context(), root, in.dir, names)
	if err != nil {
		t.Fatal(err)
	}
	results, err := conductAll(t.Context(), consumers, options{faults: few, parallel: len(consumers) * len(kinds), kinds: kinds}, in)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func check(t *testing.T, r result) {
	t.Helper()
	t.Logf("%+v", r)
	if r.Faults != few || r.Messages < few/2 {
		t.Errorf("%s: %d faults, %d messages", r.Consumer, r.Faults, r.Messages)
	}
	if r.Consumer == nameCheck {
		return
	}
	if r.StateLost+r.StateDoubled+r.SendsLost+r.DeadLetters > 0 {
		t.Errorf("%s: lost or doubled: %+v", r.Consumer, r)
	}
	if r.SendsUnknown > 0 {
		t.Errorf("%s: %d sends are about no message that was offered", r.Consumer, r.SendsUnknown)
	}
	if r.OtherIdentity+r.OtherContent+r.ByKey+r.BySequence+r.ByDedup > 0 {
		t.Errorf("%s: a send came again as another one: %+v", r.Consumer, r)
	}
}

func nothing() bool { return false }

func TestAnUnacknowledgedMessageIsRedelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(time.Second)
		b.send("ingress", queue.Message{Body: "a"})
		first, _ := b.receive(t.Context(), "ingress", nothing)
		start := time.Now()
		second, _ := b.receive(t.Context(), "ingress", nothing)
		if second.ID != first.ID || second.Receives != 2 || time.Since(start) != time.Second {
			t.Errorf("got %+v after %s", second, time.Since(start))
		}
		b.remove(first.Receipt) // too late
		if b.left("ingress") != 1 {
			t.Error("an old receipt acknowledges")
		}
		b.remove(second.Receipt)
		if b.left("ingress") != 0 {
			t.Error("a receipt does not acknowledge")
		}
	})
}

func TestOneMessageOfAGroupIsInFlightAndDuplicatesAreDropped(t *testing.T) {
	b := newBroker(time.Hour)
	for _, body := range []string{"a", "b", "b"} {
		b.send("publish.fifo", queue.Message{Body: body, Group: "g", DedupID: body})
	}
	first, _ := b.receive(t.Context(), "publish", nothing)
	if got, _, _ := b.take("publish"); got != nil {
		t.Errorf("%s is out beside %s", got.Body, first.Body)
	}
	b.remove(first.Receipt)
	if got, _, _ := b.take("publish"); got == nil || got.Body != "b" {
		t.Errorf("got %+v", got)
	}
	if n := b.left("publish"); n != 1 {
		t.Errorf("%d messages are left", n)
	}
}

func TestSendsAreJudgedByContentAndByReceiversWithMemory(t *testing.T) {
	first := send{Body: []byte(`{"id":"a","count":1}`), Identity: "messages/a/1", Group: "messages/a", Number: 1, Dedup: "x"}
	other := send{Body: []byte(`{"id":"a","count":2}`), Identity: "messages/a/2", Group: "messages/a", Number: 2, Dedup: "y"}
	for name, c := range map[string]struct {
		sends []send
		want  result
	}{
		"none":    {nil, result{SendsLost: 1}},
		"one":     {[]send{first}, result{}},
		"again":   {[]send{first, first}, result{SendsDoubled: 1}},
		"another": {[]send{first, other, first}, result{SendsDoubled: 2, OtherIdentity: 1, OtherContent: 1, ByKey: 1, BySequence: 1, ByDedup: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got result
			got.sent(c.sends, true)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASendAboutNoMessageThatWasOfferedIsCounted(t *testing.T) {
	s := sends{of: map[string][]send{}}
	for _, body := range []string{`{"id":"a","count":1}`, `{"id":"a","count":1}`, `{"id":"b","count":1}`, `{"id":"a"`, `a`, `{}`} {
		s.add(send{Body: []byte(body)})
	}
	if n := s.unknown([]string{"a", "lost"}); n != 4 {
		t.Errorf("%d are of no message, not 4", n)
	}
	if n := len(s.about("a")); n != 2 {
		t.Errorf("%d are of a, not 2", n)
	}
}

func TestUnknownNamesOnTheCommandLineAreErrors(t *testing.T) {
	for list, want := range map[string][]fault{"": faults(), "stop,kill": {stalled, killed}, "stop,burn": nil, ",": nil} {
		got, err := chosen(list, faults())
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
}

func TestTheReportCountsPerHundredFaults(t *testing.T) {
	var b bytes.Buffer
	if err := report(&b, []result{{Consumer: nameOncePython, Fault: killed}, {Consumer: nameStore, Fault: killed, Faults: 50, StateLost: 3, SendsDoubled: 1}}); err != nil {
		t.Fatal(err)
	}
	committed, written, _ := strings.Cut(b.String(), "\n\n")
	if strings.Contains(committed, title(nameStore)) || !strings.Contains(written, "| the handler increments the state itself:") {
		t.Errorf("one table compares state in the commit with state that the handler writes:\n%s", b.String())
	}
	if want := "| store, handle | 6 / 0, 0 / 2 |  |  |  |"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}
