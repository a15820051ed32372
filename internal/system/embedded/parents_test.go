package embedded_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// read returns the ids of the first entries of the log of group g, with "!" behind those whose
// parents are missing. It waits until they are there.
func (r *running) read(t *testing.T, stream string, entries int) (ids []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tail := r.client.Tail(stream, "g", client.TailOptions{})
	for range entries {
		e, err := tail.Next(ctx)
		if err != nil {
			t.Fatalf("after %v: %v", ids, err)
		}
		if e.ParentsMissing {
			e.ID += "!"
		}
		ids = append(ids, e.ID)
	}
	return ids
}

func TestAnAnswerOverHTTPIsAfterItsParentsAndBlocksNobody(t *testing.T) {
	for _, direct := range []string{"true", "false"} {
		synctest.Test(t, func(t *testing.T) {
			p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {chat: {log: {}, direct: " + direct + "}}"}
			r := p.start()
			say := func(id string, parents ...uint64) {
				r.send(t, client.Message{Stream: "chat", Group: "g", Key: id, Parents: parents, Body: []byte(id)})
			}
			say("answer", 2)
			say("root")
			say("question", 1)
			got := fmt.Sprint(r.read(t, "chat", 3))
			r.stop()
			if got != "[root question answer]" {
				t.Errorf("direct %s: the log is %s", direct, got)
			}
		})
	}
}

func TestAnAnswerWhoseParentNeverComesIsProcessedAfterTheTimeOfTheGapPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: `
streams:
  room: {log: {}, gap: {policy: skip, after: 1s}}
  hall: {admission: sequence, log: {}, gap: {policy: skip, after: 1s}}
`}
		r := p.start()
		defer r.stop()
		r.send(t, client.Message{Stream: "room", Group: "g", Key: "answer", Parents: []uint64{9}})
		r.send(t, client.Message{Stream: "hall", Group: "g", Source: "s", Sequence: 1, Parents: []uint64{9}})
		r.send(t, client.Message{Stream: "hall", Group: "g", Source: "s", Sequence: 2})
		if got := fmt.Sprint(r.read(t, "room", 1)); got != "[answer!]" {
			t.Errorf("without a number: %s", got)
		}
		if got := fmt.Sprint(r.read(t, "hall", 2)); got != "[s/0/1! s/0/2]" {
			t.Errorf("with a number: %s", got)
		}
	})
}
