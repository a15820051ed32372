package dynamostore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

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

// Versions that take a missing retention for an unknown one give such a record an expiry after 30
// days, so a record that is kept for ever says 100 years. They may also have given it that expiry.
func TestARecordThatIsKeptForEverSaysALongTime(t *testing.T) {
	t.Parallel()
	client := connect(t)
	tables := awstest.Tables(t, client)
	store := open(t, client, tables, time.Now)
	const century = 100 * 365 * 24 * time.Hour
	for _, stored := range []string{"as it is", "without a retention", "with an expiry"} {
		key := record.GroupKey{Stream: "orders", Group: stored}
		next := record.Group{Key: key, Incarnation: 1, Version: 1, State: []byte("x")}
		if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: key}, Next: next, Attempt: "a"}); err != nil {
			t.Fatal(err)
		}
		table, its, _ := dynamostore.Item(tables, key)
		it, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: its})
		if err != nil {
			t.Fatal(err)
		}
		if keep, ok := it.Item["keep"].(*types.AttributeValueMemberN); !ok || keep.Value != fmt.Sprint(int64(century/time.Second)) || it.Item["x"] != nil || it.Item["expires"] != nil {
			t.Errorf("keep %v, x %v, expires %v", it.Item["keep"], it.Item["x"], it.Item["expires"])
		}
		end := time.Now().Add(century).Truncate(time.Millisecond)
		switch stored {
		case "without a retention":
			delete(it.Item, "keep")
		case "with an expiry":
			it.Item["x"], it.Item["expires"] = &types.AttributeValueMemberN{Value: fmt.Sprint(end.UnixMilli())}, &types.AttributeValueMemberN{Value: fmt.Sprint(end.Unix())}
		}
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it.Item}); err != nil {
			t.Fatal(err)
		}
		groups, _, err := store.Load(t.Context(), []record.GroupKey{key}, nil)
		if err != nil || groups[0].Retention != 0 || groups[0].MissingExpiry() || !groups[0].Expires.IsZero() && !groups[0].Expires.Equal(end) {
			t.Errorf("%s: %+v, %v", stored, groups[0], err)
		}
		next = groups[0]
		next.Version, next.Expires = 2, time.Time{}
		if err := store.Commit(t.Context(), record.Commit{Loaded: groups[0], Next: next, Attempt: "b"}); err != nil {
			t.Fatal(err)
		}
		if it, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: its}); err != nil || it.Item["keep"] == nil || it.Item["x"] != nil || it.Item["expires"] != nil {
			t.Errorf("%s, after a commit: %v, %v", stored, it.Item, err)
		}
	}
}
