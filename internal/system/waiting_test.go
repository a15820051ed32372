package system_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

func TestAWaitIsListedFromItsFailureUntilItIsSettled(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	g, other := record.GroupKey{Stream: "orders", Group: "g"}, record.GroupKey{Stream: "orders", Group: "h"}
	w := system.NewWaiting()
	w.Failed(system.Wait{Group: g, ID: "orders/g/7", Destination: "shop", Number: 7, Try: 1, Next: at})
	w.Failed(system.Wait{Group: g, ID: "m", Try: 1, Error: "first", Next: at})
	w.Failed(system.Wait{Group: g, ID: "m", Try: 2, Error: "second", Next: at.Add(time.Second)})
	w.Failed(system.Wait{Group: other, ID: "n", Try: 1, Next: at})
	if got := w.Of(g); len(got) != 2 || got[0].ID != "m" || got[0].Try != 2 || got[0].Error != "second" || got[1].Number != 7 {
		t.Errorf("%+v", got)
	}
	w.Failed(system.Wait{Group: g, ID: "m", Error: "put off", Next: at.Add(time.Minute)})
	if got := w.Of(g); got[0].Try != 2 || got[0].Error != "second" || !got[0].Next.Equal(at.Add(time.Minute)) {
		t.Errorf("put off: %+v", got[0])
	}
	w.Settled(system.Wait{Group: g, ID: "m"})
	w.Published(g)
	if got := w.All(); len(got) != 1 || got[0].ID != "n" {
		t.Errorf("%+v", got)
	}
	w.Expire(at.Add(time.Nanosecond))
	if got := w.All(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestARegisterOfWaitsIsBounded(t *testing.T) {
	w := system.NewWaiting()
	for i := range system.MaxWaits + 1 {
		w.Failed(system.Wait{ID: strconv.Itoa(i)})
	}
	w.Failed(system.Wait{ID: "0", Try: 2})
	if got := w.All(); len(got) != system.MaxWaits || got[0].Try != 2 {
		t.Errorf("%d waits", len(got))
	}
}

func TestANilRegisterTakesAllCalls(t *testing.T) {
	var w *system.Waiting
	w.Failed(system.Wait{})
	w.Settled(system.Wait{})
	w.Published(record.GroupKey{})
	if w.All() != nil {
		t.Error("not empty")
	}
}
