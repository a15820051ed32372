package dynamostore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/internal/testkit/capacity"
)

// A billed client counts the write units of transactions: two for each KB of each item, rounded up.
// DynamoDB Local rounds the sum of the items.
type billed struct {
	dynamostore.Client
	units, chunks int
}

func (b *billed) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, options ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	for i, w := range in.TransactItems {
		units := 2 * ((dynamostore.ItemSize(w.Put.Item) + 1023) / 1024)
		b.units += units
		if i > 0 {
			b.chunks += units
		}
	}
	return b.Client.TransactWriteItems(ctx, in, options...)
}

// A commit with entries costs two write units for each KB of the group record, and two for each KB
// of the chunk. A page costs one read unit for each 4 KB, after one for the group record.
func TestTheCostOfALogInUnits(t *testing.T) {
	var meter capacity.Meter
	options := connect(t).Options()
	meter.Attach(&options)
	client := dynamodb.New(options)
	for _, c := range []struct {
		n, body int
		chunks  int     // write units of the chunks; the group record takes 2
		reads   float64 // read units of a page with all of them
	}{
		{1, 100, 2, 2},
		{10, 10, 4, 2},
		{10, 100, 6, 2},
		{1, 10_000, 20, 4},
		{20, 10_000, 400, 51},
	} {
		t.Run(fmt.Sprintf("%d messages of %d bytes", c.n, c.body), func(t *testing.T) {
			bill := &billed{Client: client}
			store := open(t, bill, awstest.Tables(t, client), time.Now)
			queues := &sink{}
			engine, err := dedup.New(dedup.Config{
				Streams: []record.Stream{{Name: "numbered", Admission: record.BySequence, Handler: func(context.Context, *record.Attempt, record.Message) error { return nil }, LogRetention: time.Hour, LogMessages: true}},
				Store:   store, Queues: queues, KeepDone: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			messages := batch("numbered", c.n, true)
			for i := range messages {
				messages[i].Body = make([]byte, c.body)
				_, _ = rand.Read(messages[i].Body)
			}
			meter.Reset()
			cost := process(t, engine, messages, record.Processed, &meter)
			t.Logf("%d write units, of which %d for chunks, %d requests", bill.units, bill.chunks, cost.Requests)
			if bill.units != 2+c.chunks || bill.chunks != c.chunks || cost.Requests != 2 {
				t.Errorf("want %d write units for the chunks, 2 for the group record, and 2 requests", c.chunks)
			}
			page, err := log.Read(t.Context(), store, messages[0].GroupKey(), log.Offset{}, 100)
			if err != nil || len(page.Entries) != c.n {
				t.Fatalf("%d entries, %v", len(page.Entries), err)
			}
			cost = meter.Reset()
			t.Logf("%+v", cost)
			if cost.ReadUnits != c.reads {
				t.Errorf("%.1f read units, want %.1f", cost.ReadUnits, c.reads)
			}
		})
	}
}
