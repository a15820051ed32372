package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

func TestMessagesAfterAFailureInAFIFOGroupAreBehindIt(t *testing.T) {
	batch := func(name string) []queue.Delivery {
		var out []queue.Delivery
		for _, group := range []string{"a", "b", "a", "a", "b"} {
			out = append(out, queue.Delivery{Queue: name, Message: queue.Message{Group: group}})
		}
		return out
	}
	second := func(i int) bool { return i == 2 }
	if diff := cmp.Diff([]bool{false, false, false, true, false}, Behind(batch("ingress.fifo"), second)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(make([]bool, 5), Behind(batch("ingress"), second)); diff != "" {
		t.Errorf("on a standard queue: %s", diff)
	}
}
