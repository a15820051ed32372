package dynamostore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/record"
)

// Client is what the store asks of DynamoDB; *dynamodb.Client is one.
type Client interface {
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	PutItem(ctx context.Context, in *dynamodb.PutItemInput, options ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, options ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	Query(ctx context.Context, in *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(ctx context.Context, in *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// Tables names the two tables, as Schema describes them.
type Tables struct{ Groups, Tokens string }

// Options are what a store can be told. Zero fields take the defaults in their comments.
type Options struct {
	// Now decides expiry. Defaults to time.Now.
	Now func() time.Time
	// Replies says what is read with a token. Defaults to ReadReplies.
	Replies ReplyReading
	// Claims keeps what is too large for an item. Defaults to none: then it is refused.
	Claims Claims
	// ClaimAbove is how large a state or a pending entry in an item may be, in bytes as encoded, where there are Claims. Defaults to 100 KB.
	ClaimAbove int
	// Pause waits before round n (1, 2, …) of what DynamoDB left undone of a batch. Defaults to exponential backoff with full jitter from 20 ms to 1 s.
	Pause func(ctx context.Context, n int) error
}

// A Store is a record.Store, a record.StateReader and a record.Lister. It keeps nothing between calls.
type Store struct {
	client  Client
	tables  Tables
	options Options
}

var (
	_ record.Store       = (*Store)(nil)
	_ record.StateReader = (*Store)(nil)
	_ record.Lister      = (*Store)(nil)
)

// New makes the store of two tables. It does no call.
func New(client Client, tables Tables, options Options) (*Store, error) {
	if client == nil || tables.Groups == "" || tables.Tokens == "" {
		return nil, fmt.Errorf("make store: a client and the names of both tables are required")
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.ClaimAbove == 0 {
		options.ClaimAbove = claimAbove
	}
	if options.Pause == nil {
		options.Pause = pause
	}
	return &Store{client: client, tables: tables, options: options}, nil
}

// rounds is how often a call goes on with what DynamoDB left undone, or after it met another writer, before it gives up with an ambiguous error.
const rounds = 10

func pause(ctx context.Context, n int) error {
	limit := min(20*time.Millisecond<<min(n-1, 10), time.Second)
	t := time.NewTimer(rand.N(limit)) //nolint:gosec // jitter, not a secret
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
