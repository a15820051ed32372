package deadletter_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// FuzzRead reads any letter: either it is valid, or the error is fit for people too. An untrusted
// sender never sets a principal.
func FuzzRead(f *testing.F) {
	for _, m := range []queue.Message{
		wire.ToDeadLetter(record.Refused{Message: record.Message{Stream: "s", ID: "1", Body: []byte("x")}, Reason: record.ReasonGap, Detail: "d"}, queue.MaxSize),
		wire.ToDeadLetter(record.Refused{Delivery: &record.Delivery{Identity: "s/g/1", Stream: "s"}, To: "shop"}, queue.MaxSize),
		wire.ToTrigger(record.GroupKey{Stream: "s", Group: "g"}),
		{Body: "x"},
	} {
		attributes, err := json.Marshal(m.Attributes)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m.Body, string(attributes), wire.Sender)
		f.Add(m.Body, string(attributes), "")
	}
	f.Fuzz(func(t *testing.T, body, attributes, sender string) {
		var values map[string]string
		if json.Unmarshal([]byte(attributes), &values) != nil {
			return
		}
		d := queue.Delivery{Message: queue.Message{Body: body, Attributes: values, Sender: sender}, ID: "id"}
		l := deadletter.Read("dead", d, []string{wire.Sender})
		invalid, refused := errors.AsType[*record.InvalidError](l.Err)
		switch {
		case l.Reason() == "":
			t.Fatal("no reason")
		case l.Err != nil && !refused && !errors.Is(l.Err, wire.ErrTrigger):
			t.Fatalf("an error of no kind: %v", l.Err)
		case refused && invalid.Rule == "", l.Err != nil && l.Info().Detail == "":
			t.Fatalf("nothing is said of %v", l.Err)
		case l.Err == nil && l.Refused.Delivery == nil && l.Refused.Message.Validate() != nil:
			t.Fatalf("a message that is not valid: %+v", l.Refused.Message)
		case !(wire.Defaults{Trusted: []string{wire.Sender}}).Trusts(&d) && (l.Refused.Message.Principal != "" || l.Refused.Delivery != nil):
			t.Fatalf("%q is believed", sender)
		}
	})
}
