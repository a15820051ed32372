package stream

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// arrive carries a message over a queue to the target stream, as its sender's own system does.
func arrive(t *testing.T, m record.Message) (record.Message, error) {
	t.Helper()
	for _, name := range []string{"ingress", "ingress.fifo"} {
		if sent := wire.ToQueue(m); sent.Validate(name) != nil {
			t.Fatalf("queue %s does not take it: %v", name, sent.Validate(name))
		}
	}
	d := queue.Delivery{Message: wire.ToQueue(m), ID: "1", Receives: 1, Sent: time.UnixMilli(1767225600000)}
	got, _, err := wire.FromQueue(&d, wire.Defaults{Trusted: []string{wire.Sender}})
	return got, err
}

// differ returns the differences from the sent message. The time is the queue's.
func differ(sent, got record.Message) string {
	if bytes.Equal(sent.Body, got.Body) { // cmp is slow for large bodies
		sent.Body, got.Body = nil, nil
	}
	return cmp.Diff(sent, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(record.Message{}, "Accepted"))
}

func TestAHeaderThatOnlyTheContractMayHaveIsRefusedWhenItIsSent(t *testing.T) {
	for _, name := range []string{"once-id", "once-stream", "once-", "Once-Group", "ONCE-x", "Once-Event"} {
		r := &recorder{}
		d := numbered("eve", 1)
		d.Effect.Headers = map[string]string{"a": "1", name: "v", "z": "2"}
		errs := newSender(t, record.BySequence, r).Send(t.Context(), []record.Delivery{d, numbered("eve", 2)})
		refused, ok := errors.AsType[*record.RefusedError](errs[0])
		if !ok || refused.Reason != record.ReasonInvalid || !strings.Contains(refused.Detail, name) {
			t.Errorf("%s: %v", name, errs[0])
		}
		if errs[1] != nil || len(r.got) != 1 {
			t.Errorf("%s: %v, %d sent", name, errs[1], len(r.got))
		}
	}
}

func TestTheSystemsOwnEventsGoToAnotherStream(t *testing.T) {
	r := &recorder{}
	d := numbered("eve", 1)
	d.Effect.Headers = map[string]string{"once-event": "gap", "once": "1", "onces-x": "2", "x-once-y": "3"}
	if errs := newSender(t, record.BySequence, r).Send(t.Context(), []record.Delivery{d}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if m, err := arrive(t, r.got[0]); err != nil || !cmp.Equal(m.Headers, d.Effect.Headers) {
		t.Errorf("%v, %v", m.Headers, err)
	}
}

func TestAContentTypeThatIsNotTextIsRefusedWhenItIsSent(t *testing.T) {
	r := &recorder{}
	d := numbered("eve", 1)
	// it would be too long for the target
	d.Effect.ContentType = strings.Repeat("\xff", record.MaxHeaders/2)
	errs := newSender(t, record.BySequence, r).Send(t.Context(), []record.Delivery{d})
	if refused, ok := errors.AsType[*record.RefusedError](errs[0]); !ok || refused.Reason != record.ReasonInvalid {
		t.Errorf("%v", errs[0])
	}
}

// Every field has its largest size, in the characters that take the most space on a queue.
func TestTheLargestPossibleMessageArrives(t *testing.T) {
	r := &recorder{}
	d := numbered(strings.Repeat("\uFFFE", record.MaxName/3), 1<<64-1)
	d.Incarnation, d.Target = 1<<64-1, strings.Repeat("\u2028", record.MaxName/3)
	d.Effect = record.Effect{
		Body: []byte(strings.Repeat("\x00", record.SmallBody)), ContentType: "\x00", Headers: map[string]string{"\x01": strings.Repeat("\x00", record.MaxHeaders-2)},
	}
	if errs := newSender(t, record.BySequence, r).Send(t.Context(), []record.Delivery{d}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	m, err := arrive(t, r.got[0])
	if diff := differ(r.got[0], m); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// FuzzASentMessageArrives sends any effect: the sender refuses it, or it arrives at the target
// unchanged.
func FuzzASentMessageArrives(f *testing.F) {
	f.Add("eve", "account", uint64(7), uint64(3), uint64(9), "text/plain", "h", "v", []byte("b"))
	f.Add("eve", "", uint64(0), uint64(0), uint64(0), "", "once-id", "v", []byte{})
	f.Add("\uFFFE", "a\x00", uint64(1), uint64(0), uint64(0), "\xff", "Once-Event", "gap", []byte("\xff"))
	f.Add(strings.Repeat("x", record.MaxName), "~", uint64(1), uint64(1), uint64(0), "a", "", "\xff", []byte("-"))
	f.Add("a b", "é", uint64(1), uint64(1), uint64(1), "", "content-type", "\x00", []byte("\r\n"))
	f.Fuzz(func(t *testing.T, group, target string, number, sequence, incarnation uint64, contentType, header, value string, body []byte) {
		d := numbered(group, number)
		d.Target, d.Sequence, d.Incarnation = target, sequence, incarnation
		d.Effect = record.Effect{ContentType: contentType, Headers: map[string]string{header: value, "traceparent": "0"}, Body: body}
		for _, admission := range []record.Admission{record.ByKey, record.BySequence, record.ByToken} {
			r := &recorder{}
			err := newSender(t, admission, r).Send(context.Background(), []record.Delivery{d})[0]
			if errors.Is(err, errUnnumbered) && sequence == 0 {
				continue
			}
			if err != nil {
				if refused, ok := errors.AsType[*record.RefusedError](err); !ok || refused.Reason != record.ReasonInvalid || len(r.steps) > 0 {
					t.Fatalf("%v after %q", err, r.steps)
				}
				continue
			}
			m, err := arrive(t, r.got[0])
			if diff := differ(r.got[0], m); err != nil || diff != "" {
				t.Fatalf("sent without an error, and then %v\n%s", err, diff)
			}
		}
	})
}
