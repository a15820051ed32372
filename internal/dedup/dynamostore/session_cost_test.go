package dynamostore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/internal/testkit/capacity"
)

const pooledPartitions = 8

// pooled returns an engine whose stream work has a pool, and its sessions, with entries of 100 bytes
// in its logs, appended ten at a time.
func pooled(t *testing.T, client *dynamodb.Client, entries int) (*dedup.Engine, *session.Sessions) {
	t.Helper()
	store := open(t, client, awstest.Tables(t, client), time.Now)
	work := record.Stream{
		Name: "work", Stateless: true, Partitions: pooledPartitions, LogRetention: time.Hour, LogMessages: true,
		Handler: func(context.Context, *record.Attempt, record.Message) error { return nil },
	}
	engine, err := dedup.New(dedup.Config{Streams: []record.Stream{work}, Store: store, Queues: &sink{}, KeepDone: true})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < entries; n += 10 {
		batch := make([]record.Message, 10)
		for i := range batch {
			batch[i] = record.Message{Stream: "work", ID: fmt.Sprint("m", n+i), Group: record.InPartition(uint64(n/10%pooledPartitions), ""), Body: make([]byte, 100)}
		}
		for _, o := range engine.Process(t.Context(), batch) {
			if o.Kind != record.Processed {
				t.Fatalf("got %+v", o)
			}
		}
	}
	return engine, engine.Sessions(store, session.Config{
		Pools: map[string]session.Pool{"work": {Partitions: pooledPartitions}}, Enqueue: func(context.Context, record.Message) error { return nil },
	})
}

// docs/costs.md has these figures.
func TestTheCostOfASessionInUnits(t *testing.T) {
	const entries, batch = 1000, 100
	var meter capacity.Meter
	options := connect(t).Options()
	meter.Attach(&options)
	_, sessions := pooled(t, dynamodb.New(options), entries)
	id := session.ID{Stream: "work", Name: "ann"}
	// spends fails the test if the calls since the last time cost more than these units.
	spends := func(what string, writes, reads float64) {
		t.Helper()
		cost := meter.Reset()
		t.Logf("%s: %+v", what, cost)
		if cost.WriteUnits > writes || cost.ReadUnits > reads {
			t.Errorf("%s: %.1f write units and %.1f read units, want at most %.1f and %.1f", what, cost.WriteUnits, cost.ReadUnits, writes, reads)
		}
	}
	meter.Reset()
	o, err := sessions.Open(t.Context(), id, session.Opening{Holder: "test"})
	if err != nil {
		t.Fatal(err)
	}
	spends("open", 1, 2)
	for at := uint64(0); at < entries; {
		page, err := sessions.Read(t.Context(), id, session.Reading{Fence: o.Fence, Limit: batch})
		if err != nil || len(page.Entries) == 0 {
			t.Fatal(len(page.Entries), err)
		}
		if err := sessions.Commit(t.Context(), id, session.Commit{Fence: o.Fence, From: at, To: page.Next}); err != nil {
			t.Fatal(err)
		}
		at = page.Next
	}
	spends("1,000 entries, dealt, read and committed by 100", 20, 160)
	if _, err := sessions.Read(t.Context(), id, session.Reading{Fence: o.Fence, Limit: batch}); err != nil {
		t.Fatal(err)
	}
	spends("a look for entries that finds none", 0, 2+pooledPartitions)
	if _, err := sessions.Renew(t.Context(), id, o.Fence); err != nil {
		t.Fatal(err)
	}
	spends("a renewal", 1, 1)
	if _, err := sessions.Closed(t.Context(), "work"); err != nil {
		t.Fatal(err)
	}
	spends("whether the stream is closed", 0, 1)
	if err := sessions.Late(t.Context()); err != nil {
		t.Fatal(err)
	}
	spends("the look for late entries of each hour", 0, 100)
	if err := sessions.SweepEnds(t.Context()); err != nil {
		t.Fatal(err)
	}
	spends("the look for ends of each minute", 0, 1)
	if err := sessions.Release(t.Context(), id, o.Fence); err != nil {
		t.Fatal(err)
	}
	spends("a release", 1, 1)
}
