package dynamostore_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// A record with a state has no time-to-live, and one without state has it, also if it was written
// by an earlier version, which gave both an expiry.
func TestARecordWithAStateHasNoTimeToLive(t *testing.T) {
	t.Parallel()
	client := connect(t)
	tables := awstest.Tables(t, client)
	store := open(t, client, tables, time.Now)
	key := record.GroupKey{Stream: "orders", Group: "g"}
	process := func(retention time.Duration, state, id string) {
		t.Helper()
		queues := &sink{}
		e, err := dedup.New(dedup.Config{
			Store: store, Queues: queues, KeepDone: true, Senders: map[string]record.Sender{"shop": queues},
			Streams: []record.Stream{{Name: "orders", StateRetention: retention, Handler: func(_ context.Context, a *record.Attempt, _ record.Message) error {
				a.State = []byte(state)
				a.Send(record.Effect{To: []string{"shop"}, Body: []byte(id)})
				return nil
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if o := e.Process(t.Context(), []record.Message{{Stream: "orders", Group: "g", ID: id}})[0]; o.Kind != record.Processed {
			t.Fatalf("%+v", o)
		}
		if err := e.Publish(t.Context(), queues.triggered)[0]; err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		id, state string
		retention time.Duration
		expires   bool
	}{
		{"a", "x", record.DefaultGroupRetention, true}, // as earlier versions wrote it
		{"b", "x", 0, false},
		{"g", "x", 0, false}, // which stays in the record as a done entry
		{"c", "", 0, true},
		{"d", "", 0, true},
		{"e", "x", 90 * 24 * time.Hour, true},
		{"f", "y", 0, false},
	} {
		process(c.retention, c.state, c.id)
		table, its, _ := dynamostore.Item(tables, key)
		got, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: its})
		if err != nil {
			t.Fatal(err)
		}
		if (got.Item["expires"] != nil) != c.expires || (got.Item["x"] != nil) != c.expires {
			t.Errorf("after %s with the state %q: expires %v and %v", c.id, c.state, got.Item["expires"], got.Item["x"])
		}
	}
}
