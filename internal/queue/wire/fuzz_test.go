package wire

import (
	"encoding/json"
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// received returns a record for fuzzed JSON of attributes; ok reports whether the JSON is valid.
func received(body, attributes, sender string) (d *queue.Delivery, ok bool) {
	var values map[string]string
	if json.Unmarshal([]byte(attributes), &values) != nil {
		return nil, false
	}
	d = foreign(body, values, queue.Message{})
	d.Sender = sender
	return d, true
}

func seed(f *testing.F, messages ...queue.Message) {
	f.Helper()
	for _, m := range messages {
		attributes, err := json.Marshal(m.Attributes)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m.Body, string(attributes), Sender)
		f.Add(m.Body, string(attributes), "mallory")
	}
	f.Add("x", `{"once-stream":"s","once-source":"a","once-sequence":"1","once-epoch":"x","once-depends-on":"a=1"}`, "")
}

func FuzzFromQueue(f *testing.F) {
	seed(f, ToQueue(full()), ToQueue(record.Message{}))
	f.Fuzz(func(t *testing.T, body, attributes, sender string) {
		r, ok := received(body, attributes, sender)
		if !ok {
			return
		}
		m, _, err := FromQueue(r, trusted)
		if err != nil {
			if _, ok := errors.AsType[*record.InvalidError](err); !ok {
				t.Fatalf("not the sender's fault: %v", err)
			}
			return
		}
		if sender != Sender && (m.Principal != "" || m.Route != "") {
			t.Fatalf("believed %q", sender)
		}
		again, _, err := FromQueue(through(t, ToQueue(m)), trusted)
		if err != nil {
			t.Fatalf("came back as %v", err)
		}
		maps.DeleteFunc(m.DependsOn, func(source string, _ uint64) bool { return source == "" })
		if m.Accepted.IsZero() {
			m.Accepted = sentAt
		}
		if diff := cmp.Diff(m, again, whole()); diff != "" {
			t.Fatalf("message (-sent +received):\n%s", diff)
		}
	})
}

func FuzzFromTrigger(f *testing.F) {
	f.Add(ToTrigger(record.GroupKey{Stream: "s", Group: "g"}).Body)
	f.Add(ToRedelivery("shop", record.Delivery{Identity: "s/g/1", Effect: record.Effect{Body: []byte("x")}}).Body)
	f.Fuzz(func(t *testing.T, body string) {
		x, err := FromTrigger(&queue.Delivery{Message: queue.Message{Body: body}})
		if err != nil {
			return
		}
		m := ToTrigger(x.Group)
		if x.Delivery != nil {
			m = ToRedelivery(x.To, *x.Delivery)
		}
		again, err := FromTrigger(through(t, m))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(x, again, whole()); diff != "" {
			t.Fatalf("trigger (-sent +received):\n%s", diff)
		}
	})
}

func FuzzFromDeadLetter(f *testing.F) {
	seed(f, ToDeadLetter(record.Refused{Message: full(), Reason: "r", Detail: "d"}, queue.MaxSize),
		ToDeadLetter(record.Refused{Delivery: &record.Delivery{Identity: "s/g/1"}, To: "shop"}, queue.MaxSize), ToTrigger(record.GroupKey{Stream: "s"}))
	f.Fuzz(func(t *testing.T, body, attributes, sender string) {
		r, ok := received(body, attributes, sender)
		if !ok {
			return
		}
		letter, err := FromDeadLetter(r, trusted)
		if err != nil {
			return
		}
		again, err := FromDeadLetter(through(t, ToDeadLetter(letter, queue.MaxSize)), trusted)
		if err != nil {
			t.Fatalf("came back as %v", err)
		}
		if letter.Message.Identity() != again.Message.Identity() || (letter.Delivery == nil) != (again.Delivery == nil) {
			t.Fatalf("%+v came back as %+v", letter, again)
		}
	})
}

func FuzzParseDependsOn(f *testing.F) {
	f.Add("a=1, *41=\"7\"")
	f.Fuzz(func(t *testing.T, text string) {
		depends, err := ParseDependsOn([]string{text})
		if err != nil {
			return
		}
		delete(depends, "")
		again, err := ParseDependsOn([]string{formatDependsOn(depends)})
		if err != nil {
			t.Fatalf("%q: %v", formatDependsOn(depends), err)
		}
		if diff := cmp.Diff(depends, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
