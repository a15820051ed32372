package embedded_test

import (
	"testing"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
)

func TestASweepCountsAGroupWhosePredecessorIsMissingAsWaiting(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: "streams: {chat: {destinations: [ledger], admission: sequence}}\ndestinations: {ledger: {file: DIR/ledger.jsonl}}\n"}
	r := p.start()
	defer r.stop()
	r.send(t, client.Message{Stream: "chat", Source: "s", Sequence: 2})
	for stats, err := r.Stats(t.Context()); stats.Held == 0 || stats.Queued > 0; stats, err = r.Stats(t.Context()) {
		if err != nil {
			t.Fatal(err) // also when the test ends
		}
	}
	if info, err := r.Sweep(t.Context()); err != nil || info != (admin.SweepInfo{Groups: 1, Waiting: 1}) {
		t.Errorf("%+v, %v", info, err)
	}
}
