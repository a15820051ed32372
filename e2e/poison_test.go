package e2e

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
)

// A poison message can never be processed in its present form. It must reach the dead-letter queue
// with its reason, block no other message, and be redriven under its identity when its cause is
// fixed.

const poisonStreams = `
streams:
  keyed:    {admission: key, destinations: [keyed]}
  issued:   {admission: token, destinations: [issued]}
  numbered: {admission: sequence, gap: {policy: fail, after: 1s}, destinations: [numbered]}
destinations:
  keyed:    {file: out/keyed.jsonl}
  issued:   {file: out/issued.jsonl}
  numbered: {file: out/numbered.jsonl}
`

// raw sends a message unchanged, even if it is invalid.
func (q *sqsSender) raw(t *testing.T, queue, group, id, body string, attributes map[string]string) {
	t.Helper()
	in := &sqs.SendMessageInput{QueueUrl: q.urls[queue], MessageBody: &body, MessageAttributes: map[string]types.MessageAttributeValue{}}
	if group != "" {
		in.MessageGroupId, in.MessageDeduplicationId = &group, &id
	}
	for name, value := range attributes {
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	_, err := q.client.SendMessage(t.Context(), in)
	must(t, err)
}

// wantLetters waits until the dead letters are exactly these, as "reason stream id", sorted.
func (s *server) wantLetters(t *testing.T, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if want == nil {
		want = []string{}
	}
	var got []string
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		letters, err := s.deadLetters()
		got = []string{}
		for _, l := range letters {
			got = append(got, l.String())
		}
		slices.Sort(got) // on a slow machine, the second message of a gap may come after the time of the first
		return cmp.Equal(want, got), err
	})
	if err != nil {
		t.Fatalf("%v: dead letters:\n%s", err, cmp.Diff(want, got))
	}
}

// wantLines waits until the server is idle and compares the ids of a file's lines.
func (s *server) wantLines(t *testing.T, file string, want ...string) {
	t.Helper()
	s.settle(t, time.Minute)
	lines, err := readLines(s.path(file))
	must(t, err)
	var got []string
	for _, l := range lines {
		got = append(got, l.ID)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s:\n%s", file, d)
	}
}

func (s *server) redrive(t *testing.T, args ...string) {
	t.Helper()
	_, err := s.once(append([]string{"redrive"}, args...)...)
	must(t, err)
}

func startPoisoned(t *testing.T, stream string) (*server, *sqsSender) {
	t.Helper()
	s := newServer(t, onceBinary, poisonStreams)
	must(t, s.start())
	return s, newSQSSender(t, s, stream)
}

func TestAReusedKeyIsDeadLetteredAndBlocksNoOtherMessage(t *testing.T) {
	s, q := startPoisoned(t, "keyed")
	q.raw(t, "keyed.fifo", "g", "a", "first", nil)
	q.raw(t, "keyed.fifo", "g", "b", "second", nil)
	s.wantLines(t, "out/keyed.jsonl", "a", "b")
	q.raw(t, "keyed.fifo", "g", "a", "something else", nil)
	q.raw(t, "keyed.fifo", "g", "c", "after the poison", nil)
	q.raw(t, "keyed.fifo", "h", "d", "in another group", nil)
	s.wantLetters(t, "key-reuse keyed a")
	s.settle(t, time.Minute)
	lines, err := readLines(s.path("out/keyed.jsonl"))
	must(t, err)
	judgeLines("keyed", []sent{
		{id: "a", group: "g", body: []byte("first")},
		{id: "b", group: "g", body: []byte("second")},
		{id: "c", group: "g", body: []byte("after the poison")},
		{id: "d", group: "h", body: []byte("in another group")},
	}, lines).report(t)

	s.redrive(t) // its cause is not fixed: it is dead-lettered again
	s.settle(t, time.Minute)
	s.wantLetters(t, "key-reuse keyed a")
}

func TestAnUnknownTokenIsDeadLetteredAndRedrivenOnceIssued(t *testing.T) {
	s, q := startPoisoned(t, "issued")
	h := newHTTPSender(t, s.url(), "issued")
	m := sent{id: "p-1", group: "g", contentType: "text/plain", body: []byte("pay")}
	q.raw(t, "issued.fifo", "g", "p-1", "pay", map[string]string{"Content-Type": "text/plain"})
	s.wantLetters(t, "unknown issued p-1")
	must(t, h.send(t.Context(), sent{id: "p-2", group: "g", body: []byte("the group goes on")}))
	s.wantLines(t, "out/issued.jsonl", "p-2")

	s.redrive(t, "--reason", "unknown") // its token is still not issued
	s.settle(t, time.Minute)
	s.wantLetters(t, "unknown issued p-1")

	must(t, h.send(t.Context(), m)) // issues the token, and is processed by itself
	s.redrive(t, "--reason", "unknown")
	s.wantLetters(t)
	// the dead letter was known as the same message
	s.wantLines(t, "out/issued.jsonl", "p-2", "p-1")
}

func TestMalformedAttributesAreDeadLetteredAndStayInvalid(t *testing.T) {
	s, q := startPoisoned(t, "numbered")
	q.raw(t, "ingress", "", "", "x", map[string]string{"once-stream": "numbered", "once-source": "s", "once-sequence": "seven"})
	s.wantLetters(t, "invalid numbered s/0/0")
	q.raw(t, "ingress", "", "", "x", map[string]string{"once-stream": "numbered", "once-source": "s", "once-sequence": "1"})
	s.wantLines(t, "out/numbered.jsonl", "s/0/1")
	const incomplete = 5 // a letter that can't be parsed can't be redriven
	var exit *exec.ExitError
	if _, err := s.once("redrive"); !errors.As(err, &exit) || exit.ExitCode() != incomplete {
		t.Errorf("redrive: %v", err)
	}
	s.wantLetters(t, "invalid numbered s/0/0")
}

func TestAMessageToAMissingStreamIsRedrivenWhenTheStreamExists(t *testing.T) {
	s, q := startPoisoned(t, "keyed")
	for _, id := range []string{"l-1", "l-2"} {
		q.raw(t, "ingress.fifo", "g", id, "too early", map[string]string{"once-stream": "later"})
	}
	s.wantLetters(t, "invalid later l-1", "invalid later l-2")
	must(t, s.stop(), s.configure(poisonStreams+"  later:    {file: out/later.jsonl}\n"), s.start())
	s.redrive(t)
	// there is a destination, but no stream
	s.wantLetters(t, "invalid later l-1", "invalid later l-2")
	must(t, s.stop(), s.configure("streams:\n  later: {destinations: [later]}\ndestinations:\n  later: {file: out/later.jsonl}\n"), s.start())
	s.redrive(t, "--max", "1")
	s.wantLines(t, "out/later.jsonl", "l-1")
	s.redrive(t)
	s.wantLetters(t)
	s.wantLines(t, "out/later.jsonl", "l-1", "l-2")
}

func TestNumbersWithoutAPredecessorAreDeadLetteredAndRedrivenInOrder(t *testing.T) {
	s, q := startPoisoned(t, "numbered")
	send := func(n string) {
		q.raw(t, "numbered", "", "", "x", map[string]string{"once-source": "s", "once-sequence": n})
	}
	send("3")
	send("2")
	s.wantLetters(t, "gap numbered s/0/2", "gap numbered s/0/3")
	q.raw(t, "numbered", "", "", "x", map[string]string{"once-source": "other", "once-sequence": "1"})
	s.wantLines(t, "out/numbered.jsonl", "other/0/1")
	send("1")
	s.wantLines(t, "out/numbered.jsonl", "other/0/1", "s/0/1")
	s.redrive(t, "--reason", "gap")
	s.wantLetters(t)
	s.wantLines(t, "out/numbered.jsonl", "other/0/1", "s/0/1", "s/0/2", "s/0/3")
}

func TestAStaleEpochIsDeadLettered(t *testing.T) {
	s, q := startPoisoned(t, "numbered")
	for _, epoch := range []string{"1", "2", "1"} {
		q.raw(t, "numbered", "", "", "from epoch "+epoch, map[string]string{"once-source": "s", "once-epoch": epoch, "once-sequence": "1"})
		s.settle(t, time.Minute)
	}
	q.raw(t, "numbered", "", "", "x", map[string]string{"once-source": "s", "once-epoch": "1", "once-sequence": "2"})
	s.wantLetters(t, "stale-epoch numbered s/1/1", "stale-epoch numbered s/1/2")
	s.wantLines(t, "out/numbered.jsonl", "s/1/1", "s/2/1")
}

func TestARestoredDestinationGetsItsEffectsUnderTheSameIdentity(t *testing.T) {
	r := newReceiver(t, 0)
	s := newServer(t, onceBinary, webhooksTo(r.url))
	s.env = []string{r.env()}
	must(t, s.start())
	h := newHTTPSender(t, s.url(), "github")
	input := []sent{
		{id: "a", group: "g", body: []byte("1")}, {id: "b", group: "g", body: []byte("2")}, {id: "c", group: "h", body: []byte("3")},
	}
	must(t, h.send(t.Context(), input[0]))
	s.settle(t, time.Minute)
	r.gone.Store(true)
	must(t, h.send(t.Context(), input[1]))
	s.settle(t, time.Minute)
	must(t, h.send(t.Context(), input[2]))
	s.wantLetters(t, "gone github github/g/2", "gone github github/h/1")
	s.wantLines(t, "out/ledger.jsonl", "a", "b", "c") // the other destination has all of them

	r.gone.Store(false)
	must(t, s.stop(), s.start()) // a running process remembers that the destination is gone
	s.redrive(t, "--reason", "gone")
	s.wantLetters(t)
	judgeAll(t, s, r, "github", "out/ledger.jsonl", input)
}
