package deployed_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config/change"
	"github.com/effectively-once/once/internal/queue"
)

func TestWaitingCountsGroupsEffectsAndQueues(t *testing.T) {
	w := newWorld(t)
	w.process(t, order("o-1", ann), order("o-2", ann), numbered(3), numbered(2))
	w.take(t, "PublishFifo")
	sent := w.queue("Ingress").Send(t.Context(), []queue.Message{{Body: "x"}})
	if sent[0].Err != nil {
		t.Fatal(sent[0].Err)
	}
	got, err := w.system.Waiting(t.Context())
	want := change.Waiting{
		Streams: map[string]change.Stream{"orders": {Groups: 1, Pending: 2}, "chat": {Groups: 1, Held: 2}},
		Effects: map[string]int{"shop": 2}, Queued: 1,
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n-want +got\n%s", err, d)
	}
}
