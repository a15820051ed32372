package dynamodelay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/delay/delaytest"
	"github.com/effectively-once/once/internal/delay/dynamodelay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

func connect(t *testing.T) *dynamodb.Client {
	t.Helper()
	return dynamodb.NewFromConfig(awstest.Config(t, "DYNAMODB"), func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true })
}

func TestConformance(t *testing.T) {
	t.Parallel()
	client := connect(t)
	delaytest.Run(t, delaytest.Harness{Many: 800, Parallel: true, New: func(t *testing.T) delay.Store {
		t.Helper()
		return dynamodelay.New(client, awstest.Tables(t, client).Groups)
	}})
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func item(after time.Duration, name string, size int) delay.Item {
	return delay.Item{Key: delay.Key{Due: noon.Add(after), Name: name}, Queue: "ingress", Message: queue.Message{Body: strings.Repeat("x", size)}}
}

func TestTheLargestPromisedMessageIsStoredAndALargerOneIsAnError(t *testing.T) {
	t.Parallel()
	client := connect(t)
	s := dynamodelay.New(client, awstest.Tables(t, client).Groups)
	if err := s.Put(t.Context(), []delay.Item{item(1, "large", delay.SmallMessage)}); err != nil {
		t.Fatalf("%d bytes: got %v, want no error", delay.SmallMessage, err)
	}
	if err := s.Put(t.Context(), []delay.Item{item(2, "small", 1), item(3, "huge", 400<<10)}); !errors.Is(err, delay.ErrTooLarge) {
		t.Errorf("400 KiB: got %v, want that it is too large", err)
	}
	for size, fits := range map[int]bool{delay.SmallMessage: true, 400 << 10: false} {
		if x := item(2, "x", size); errors.Is(s.Fits(&x), delay.ErrTooLarge) == fits {
			t.Errorf("%d bytes: got %v, want the error of Put", size, s.Fits(&x))
		}
	}
	got, err := s.Due(t.Context(), delay.Key{}, noon.Add(time.Hour), 10)
	if err != nil || len(got) != 1 || len(got[0].Message.Body) != delay.SmallMessage {
		t.Errorf("got %d items (%v), want the large one only", len(got), err)
	}
}

func TestASweepOfGroupsPassesDelayedMessagesOver(t *testing.T) {
	t.Parallel()
	client := connect(t)
	tables := awstest.Tables(t, client)
	if err := dynamodelay.New(client, tables.Groups).Put(t.Context(), []delay.Item{item(1, "a", 1)}); err != nil {
		t.Fatal(err)
	}
	store, err := dynamostore.New(client, tables, dynamostore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := store.Glance(t.Context(), record.GroupKey{}, 10)
	if err != nil || len(groups) != 0 {
		t.Errorf("got %d groups (%v), want none", len(groups), err)
	}
	for waiting, err := range store.Waiting(t.Context()) {
		t.Errorf("got a waiting group %v (%v), want none", waiting, err)
	}
}

// A busy client leaves a part of each batch unprocessed.
type busy struct {
	*dynamodb.Client
	calls int
}

func (b *busy) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	b.calls++
	left := map[string][]types.WriteRequest{}
	for table, list := range in.RequestItems {
		if n := len(list) / 2; n > 0 {
			left[table], in = list[n:], &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: list[:n]}}
		}
	}
	out, err := b.Client.BatchWriteItem(ctx, in, options...)
	if err == nil {
		out.UnprocessedItems = left
	}
	return out, err
}

func TestItemsThatAreLeftUnprocessedAreWrittenAgain(t *testing.T) {
	t.Parallel()
	client := connect(t)
	b := &busy{Client: client}
	s := dynamodelay.New(b, awstest.Tables(t, client).Groups)
	if err := s.Put(t.Context(), []delay.Item{item(1, "a", 1), item(2, "b", 1), item(3, "c", 1), item(4, "d", 1)}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Due(t.Context(), delay.Key{}, noon.Add(time.Hour), 10)
	if err != nil || len(got) != 4 || b.calls < 2 {
		t.Errorf("got %d items after %d calls (%v), want 4 after several", len(got), b.calls, err)
	}
}

func TestAnItemOfAnotherFormIsCorrupt(t *testing.T) {
	t.Parallel()
	client := connect(t)
	table := awstest.Tables(t, client).Groups
	s := dynamodelay.New(client, table)
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: "delay~3"}, "sk": &types.AttributeValueMemberS{Value: "00000000000000000001#x"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Due(t.Context(), delay.Key{}, noon, 10); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("got %v, want that the item is corrupt", err)
	}
}
