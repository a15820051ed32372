package pebblequeue

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

func TestAReceiverThatWaitsForALateMessageGetsAnEarlierOneInTime(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	got := make(chan []queue.Delivery, 1)
	go func() {
		deliveries, err := q.Receive(t.Context(), 1, time.Minute, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- deliveries
	}()
	send := func(body string, delay time.Duration) {
		mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), []queue.Message{{Body: body, Delay: delay}}) })
	}
	send("late", 10*time.Minute)
	for set := false; !set; runtime.Gosched() { // until the receiver waits for the late one
		q.mu.Lock()
		set = q.waiters.due != 0
		q.mu.Unlock()
	}
	send("soon", 50*time.Millisecond)
	select {
	case deliveries := <-got:
		if bodies(deliveries) != "soon" {
			t.Errorf("received %q", bodies(deliveries))
		}
	case <-time.After(30 * time.Second):
		t.Error("the message is due for half a minute, and the receiver still waits")
	}
}

func TestARecordWithARightChecksumAndAWrongContentIsAnError(t *testing.T) {
	key := []byte("key")
	data := pebbledb.Seal(key, []byte{format, 0xff}) // the end of a list that did not begin
	if err := decode(key, data, &messageRecord{}); !errors.Is(err, record.ErrCorrupt) || strings.Contains(err.Error(), "checksum") {
		t.Errorf("got %v", err)
	}
}

func TestTheErrorOfAMessageNamesTheFirstRuleThatItBreaks(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{Deduplicate: time.Minute})
	for field, m := range map[string]queue.Message{"body": {Group: "g"}, "group": {Body: "x"}, "deduplication id": {Body: "x", Group: "g"}} {
		invalid, ok := errors.AsType[*queue.InvalidError](q.Send(t.Context(), []queue.Message{m})[0].Err)
		if !ok || invalid.Field != field {
			t.Errorf("%s: got %v", field, invalid)
		}
	}
}
