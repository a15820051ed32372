package dynamodelay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/record"
)

// Client is the part of DynamoDB's API that the store uses; *dynamodb.Client implements it.
type Client interface {
	PutItem(ctx context.Context, in *dynamodb.PutItemInput, options ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	Query(ctx context.Context, in *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

const (
	shards = 4
	// maxItem is the largest content of an item: 400 KB, less the keys and the names of attributes.
	maxItem = 390 << 10
	// writeBatch is the most items that one request writes.
	writeBatch = 25
	// writing is how many requests of one call write at a time.
	writing = 8
	// rounds is how often a request is repeated for its unprocessed items.
	rounds = 10
)

// The attributes of an item.
const (
	attrPK      = "pk"
	attrSK      = "sk"
	attrName    = "name"    // binary: names may be any text
	attrContent = "content" // binary, see [delay.Item.AppendContent]
)

type attributes = map[string]types.AttributeValue

// A Store implements [delay.Store]. It keeps nothing in memory between calls.
type Store struct {
	client Client
	table  string
}

var (
	_ delay.Store   = (*Store)(nil)
	_ delay.Limited = (*Store)(nil)
)

// New returns the store in the table of groups. It makes no call.
func New(client Client, table string) *Store { return &Store{client, table} }

// keyOf returns the keys of an item. The sort key has the due time as 20 digits, and the hash of
// the name, because a name may be longer than a sort key.
func keyOf(k delay.Key) attributes {
	hash := sha256.Sum256([]byte(k.Name))
	return attributes{attrPK: text(partition(int(hash[0]) % shards)), attrSK: text(sortKey(k))}
}

func sortKey(k delay.Key) string {
	hash := sha256.Sum256([]byte(k.Name))
	return fmt.Sprintf("%020d#%s", delay.Ordinal(k.Due), hex.EncodeToString(hash[:]))
}

// partition returns the partition key of a shard. Those of groups have a # in them.
func partition(shard int) string { return "delay~" + strconv.Itoa(shard) }

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// Put implements [delay.Store].
func (s *Store) Put(ctx context.Context, items []delay.Item) error {
	var requests []types.WriteRequest
	places := map[string]int{} // by the sort key: one request can't write an item twice
	for i := range items {
		it := keyOf(items[i].Key)
		content := items[i].AppendContent(nil)
		if err := fits(&items[i], content); err != nil {
			return err
		}
		it[attrName], it[attrContent] = &types.AttributeValueMemberB{Value: []byte(items[i].Name)}, &types.AttributeValueMemberB{Value: content}
		r := types.WriteRequest{PutRequest: &types.PutRequest{Item: it}}
		sk := it[attrSK].(*types.AttributeValueMemberS).Value
		if at, twice := places[sk]; twice {
			requests[at] = r
			continue
		}
		places[sk], requests = len(requests), append(requests, r)
	}
	if len(requests) == 1 { // of almost all calls
		if _, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: requests[0].PutRequest.Item}); err != nil {
			return fmt.Errorf("put delayed message: %w", err)
		}
		return nil
	}
	if err := s.write(ctx, requests); err != nil {
		return fmt.Errorf("put delayed messages: %w", err)
	}
	return nil
}

// Fits implements [delay.Limited].
func (s *Store) Fits(item *delay.Item) error { return fits(item, item.AppendContent(nil)) }

func fits(item *delay.Item, content []byte) error {
	if len(content)+len(item.Name) > maxItem {
		return fmt.Errorf("put delayed messages: %d bytes: %w", len(content), delay.ErrTooLarge)
	}
	return nil
}

// Delete implements [delay.Store].
func (s *Store) Delete(ctx context.Context, keys []delay.Key) error {
	var requests []types.WriteRequest
	seen := map[string]bool{}
	for _, k := range keys {
		key := keyOf(k)
		if sk := key[attrSK].(*types.AttributeValueMemberS).Value; !seen[sk] {
			seen[sk] = true
			requests = append(requests, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}})
		}
	}
	if err := s.write(ctx, requests); err != nil {
		return fmt.Errorf("delete delayed messages: %w", err)
	}
	return nil
}

// write makes the writes, in concurrent requests.
func (s *Store) write(ctx context.Context, requests []types.WriteRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writing)
	for part := range slices.Chunk(requests, writeBatch) {
		g.Go(func() error { return s.writePart(ctx, part) })
	}
	return g.Wait()
}

var errUnprocessed = errors.New("DynamoDB left items unprocessed")

func (s *Store) writePart(ctx context.Context, part []types.WriteRequest) error {
	left := map[string][]types.WriteRequest{s.table: part}
	for n := 1; ; n++ {
		out, err := s.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: left})
		if err != nil {
			return err
		}
		if left = out.UnprocessedItems; len(left) == 0 {
			return nil
		}
		if n == rounds {
			return errUnprocessed
		}
		if err := backoff.Sleep(ctx, backoff.Full(n, 20*time.Millisecond, time.Second)); err != nil {
			return err
		}
	}
}

// Due implements [delay.Store]. It merges the shards.
func (s *Store) Due(ctx context.Context, after delay.Key, before time.Time, limit int) ([]delay.Item, error) {
	if after != (delay.Key{}) && !after.Due.Before(before) { // DynamoDB refuses such a start
		return nil, nil
	}
	readers := make([]*reader, shards)
	page := int32(min(max(limit/shards+1, 10), 1000))
	var g errgroup.Group
	for i := range readers {
		readers[i] = &reader{store: s, shard: i, before: before, page: page, more: true}
		if after != (delay.Key{}) {
			readers[i].start = attributes{attrPK: text(partition(i)), attrSK: text(sortKey(after))}
		}
		g.Go(func() error { return readers[i].fill(ctx) })
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("read delayed messages: %w", err)
	}
	var out []delay.Item
	for bytes := 0; len(out) < limit && bytes < delay.PageBytes; {
		first := earliest(readers)
		if first == nil {
			break
		}
		out, first.items = append(out, first.items[0].Item), first.items[1:]
		bytes += out[len(out)-1].Message.Size()
		if err := first.fill(ctx); err != nil {
			return nil, fmt.Errorf("read delayed messages: %w", err)
		}
	}
	for _, r := range readers {
		if r.corrupt != nil {
			return out, fmt.Errorf("read delayed messages: %w", r.corrupt)
		}
	}
	return out, nil
}

// earliest returns the reader with the earliest item, or nil if no reader has any.
func earliest(readers []*reader) (first *reader) {
	for _, r := range readers {
		if len(r.items) > 0 && (first == nil || r.items[0].sk < first.items[0].sk) {
			first = r
		}
	}
	return first
}

// A sorted item has its sort key.
type sorted struct {
	delay.Item
	sk string
}

// A reader reads the items of one shard, page by page.
type reader struct {
	store  *Store
	shard  int
	before time.Time
	page   int32
	items  []sorted
	start  attributes // exclusive
	more   bool
	// corrupt is the error of the first item that can't be decoded.
	corrupt error
}

// fill reads pages until the reader has an item, or the shard has no more.
func (r *reader) fill(ctx context.Context) error {
	for len(r.items) == 0 && r.more {
		out, err := r.store.client.Query(ctx, &dynamodb.QueryInput{
			TableName: &r.store.table, ConsistentRead: aws.Bool(true), Limit: &r.page, ExclusiveStartKey: r.start,
			KeyConditionExpression:   aws.String("#pk=:pk AND #sk<:before"),
			ExpressionAttributeNames: map[string]string{"#pk": attrPK, "#sk": attrSK},
			ExpressionAttributeValues: attributes{
				":pk": text(partition(r.shard)), ":before": text(fmt.Sprintf("%020d", delay.Ordinal(r.before))),
			},
		})
		if err != nil {
			return err
		}
		for _, it := range out.Items {
			item, err := decode(it)
			if err != nil {
				r.corrupt = cmp.Or(r.corrupt, err)
				continue
			}
			r.items = append(r.items, sorted{item, sortKey(item.Key)})
		}
		r.start = out.LastEvaluatedKey
		r.more = len(r.start) > 0
	}
	return nil
}

func decode(it attributes) (item delay.Item, err error) {
	sk, _ := it[attrSK].(*types.AttributeValueMemberS)
	name, _ := it[attrName].(*types.AttributeValueMemberB)
	content, _ := it[attrContent].(*types.AttributeValueMemberB)
	if sk == nil || name == nil || content == nil || len(sk.Value) < 20 {
		return item, fmt.Errorf("delayed message: an attribute is missing: %w", record.ErrCorrupt)
	}
	due, err := strconv.ParseUint(sk.Value[:20], 10, 64)
	if err != nil {
		return item, fmt.Errorf("delayed message: the sort key %.40q: %w", sk.Value, record.ErrCorrupt)
	}
	item.Due, item.Name = delay.OfOrdinal(due), string(name.Value)
	if err := item.ReadContent(content.Value); err != nil {
		return item, fmt.Errorf("delayed message %.40q: %w", sk.Value, err)
	}
	return item, nil
}
