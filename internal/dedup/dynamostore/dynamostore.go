package dynamostore

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

// Client is the part of DynamoDB's API that the store uses; *dynamodb.Client implements it.
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

// Options configure a store. Zero fields take the defaults in their comments.
type Options struct {
	// Now decides expiry. Defaults to time.Now.
	Now func() time.Time
	// Replies selects whether tokens are read with their replies. Defaults to ReadReplies.
	Replies ReplyReading
	// Claims stores values that are too large for an item. Defaults to none: then such values are
	// refused.
	Claims Claims
	// ClaimAbove is how large a state or a pending entry in an item may be, in encoded bytes, if
	// there are Claims. Defaults to 100 KB.
	ClaimAbove int
	// Pause waits before round n (1, 2, …) of the unprocessed part of a batch. Defaults to
	// exponential backoff with full jitter from 20 ms to 1 s.
	Pause func(ctx context.Context, n int) error
}

// A Store is a record.Store, a record.StateReader and a record.Lister. It keeps nothing in memory
// between calls.
type Store struct {
	client  Client
	tables  Tables
	options Options
}

var (
	_ record.Store       = (*Store)(nil)
	_ record.StateReader = (*Store)(nil)
	_ record.Lister      = (*Store)(nil)
	_ record.LogReader   = (*Store)(nil)
)

// New returns the store of two tables. It makes no call.
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
		options.Pause = func(ctx context.Context, n int) error {
			return backoff.Sleep(ctx, backoff.Full(n, 20*time.Millisecond, time.Second))
		}
	}
	return &Store{client: client, tables: tables, options: options}, nil
}

// rounds is how often a call retries unprocessed items, or a write that lost to another writer,
// before it returns an ambiguous error.
const rounds = 10
