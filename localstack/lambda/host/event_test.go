package host

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got any) {
	t.Helper()
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestAnEventHasTheFormThatLambdaUses(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC)
	var deliveries []queue.Delivery
	for i, m := range []queue.Message{
		wire.ToQueue(record.Message{
			Principal: "alice", Stream: "orders", ID: "käse \uFFFF", Group: "gr\uFFFEoup/ü", Source: "sensor", Epoch: 3, Sequence: 18446744073709551615,
			DependsOn: map[string]uint64{"Other Source": 7, "b": 1 << 60}, ContentType: "application/json",
			Headers: map[string]string{"traceparent": "00-é", "x": "line\nbreak"}, Body: []byte(`{"a":1}`),
			Route: "POST /v1/x", Accepted: time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC),
		}),
		wire.ToQueue(record.Message{Stream: "orders", ID: "1", Body: []byte{0xff}, Accepted: at}),
		wire.ToTrigger(record.GroupKey{Stream: "orders", Group: "customer 7"}),
		wire.ToDeadLetter(record.Refused{Message: record.Message{Stream: "orders", ID: "2", Body: []byte("x")}, Reason: record.ReasonUnknown, Detail: "never issued"}, queue.MaxSize),
		{Body: "plain", Sender: "sqs", Group: "g"},
	} {
		m.DedupID = "d" + string(rune('0'+i))
		deliveries = append(deliveries, queue.Delivery{
			Message: m, ID: "id-" + string(rune('0'+i)), Receipt: "receipt", SequenceNumber: "00000000001099511627777", Receives: i + 1, Sent: at,
		})
	}
	deliveries[4].SequenceNumber = "" // a message of a standard queue has none
	golden(t, "event.json", Event("arn:aws:sqs:eu-central-1:123456789012:ingress.fifo", deliveries))
}
