package dedup_test

import (
	"errors"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func TestAKeyReuseAtTheFrontDoorIsObserved(t *testing.T) {
	w := newLab(t).worker(record.Stream{Name: "s"})
	w.issue(keyed("a: send=out")...)
	other := keyed("a: send=side")[0]
	_, _, err := w.Issue(t.Context(), other)
	if refused, ok := errors.AsType[*record.RefusedError](err); !ok || refused.Reason != record.ReasonKeyReuse {
		t.Fatal(err)
	}
	same(t, "events", w.events, []record.Event{{Name: record.EventRejected, Stream: "s", Count: 1, Reason: record.ReasonKeyReuse}})
}

func TestPublishingWithoutAGroupRecordIsObserved(t *testing.T) {
	w := newLab(t).worker(relay)
	w.process(keyed("a: send=out")...)
	w.process(keyed("a: send=out")...)
	same(t, "events", w.events, []record.Event{
		{Name: record.EventPublished, Stream: "s", Count: 1}, {Name: record.EventProcessed, Stream: "s", Count: 1}, {Name: record.EventDuplicate, Stream: "s", Count: 1},
	})
}
