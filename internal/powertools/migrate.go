package powertools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/record"
)

// A Scanner reads a table; *dynamodb.Client is one.
type Scanner interface {
	Scan(ctx context.Context, in *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// Options are those of a migration. Zero fields take the defaults in their comments.
type Options struct {
	// Table is the table of Powertools. Required.
	Table      string
	Attributes Attributes
	// Language and Scope are required. See [StreamScope] and [MiddlewareScope].
	Language Language
	Scope    string
	// Prefix selects the records of one function: those whose keys are PREFIX#HASH. Empty selects
	// all.
	Prefix string
	// Reply defaults to AutoReply.
	Reply Reply
	// DryRun writes nothing.
	DryRun bool
	// Now defaults to time.Now.
	Now func() time.Time
	// Read is called with the number of records after each page.
	Read func(records int)
	// Problem is called for each record that could not be copied.
	Problem func(key string, err error)
}

// StreamScope returns the scope of a decorator's tokens.
func StreamScope(stream string) string { return lease.HandlerScope + stream }

// MiddlewareScope returns the scope of the tokens of a middleware with a name, which may be empty.
func MiddlewareScope(name string) string { return lease.HTTPScope + name }

// Counts are the results of a migration. Read is the sum of the others.
type Counts struct {
	Read int `json:"read"`
	// Copied and Leased are records that were written: done, and in progress.
	Copied int `json:"copied"`
	Leased int `json:"leased"`
	// Present were copied before; Newer have been used by the new service since.
	Present int `json:"present"`
	Newer   int `json:"newer"`
	// Expired have no effect any more. Abandoned were in progress, and their time is over.
	Expired   int `json:"expired"`
	Abandoned int `json:"abandoned"`
	// Other belong to other functions.
	Other int `json:"other"`
	// Failed could not be read or written.
	Failed int `json:"failed"`
}

// workers is how many tokens are written at a time.
const workers = 16

type migration struct {
	Options
	to lease.Store

	mu     sync.Mutex
	counts Counts
}

// Migrate copies the records of a table to a store of tokens. It changes no token that the new
// service has written, and nothing in the table. If it is repeated, it copies newer records.
// The counts are also returned with an error.
func Migrate(ctx context.Context, from Scanner, to lease.Store, o Options) (Counts, error) {
	o.Attributes = Attributes{
		Key: cmp.Or(o.Attributes.Key, "id"), Status: cmp.Or(o.Attributes.Status, "status"), Expiry: cmp.Or(o.Attributes.Expiry, "expiration"),
		InProgressExpiry: cmp.Or(o.Attributes.InProgressExpiry, "in_progress_expiration"), Data: cmp.Or(o.Attributes.Data, "data"),
	}
	o.Reply = cmp.Or(o.Reply, AutoReply)
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &migration{Options: o, to: to}
	// before anything is read
	if _, _, err := to.Load(ctx, nil, []record.TokenKey{{}}); err != nil {
		return m.counts, fmt.Errorf("read the table of tokens: %w", err)
	}
	pages := dynamodb.NewScanPaginator(from, &dynamodb.ScanInput{TableName: &o.Table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return m.counts, fmt.Errorf("read table %s: %w", o.Table, err)
		}
		if err := m.copyAll(ctx, page.Items); err != nil {
			return m.counts, err
		}
		if o.Read != nil {
			o.Read(m.counts.Read)
		}
	}
	return m.counts, nil
}

// copyAll copies the records of a page, several at a time.
func (m *migration) copyAll(ctx context.Context, items []map[string]types.AttributeValue) error {
	next := make(chan map[string]types.AttributeValue)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for item := range next {
				m.copy(ctx, item)
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	all.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("copy records: %w", err)
	}
	return nil
}

// copy copies one record, and counts it.
func (m *migration) copy(ctx context.Context, item map[string]types.AttributeValue) {
	if ctx.Err() != nil {
		return
	}
	s, err := m.Attributes.read(item)
	field := &m.counts.Failed
	if err == nil {
		field, err = m.carry(ctx, &s)
	}
	if err != nil && ctx.Err() != nil {
		return // the write may have been applied
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Read++
	if err != nil {
		field = &m.counts.Failed
		if m.Problem != nil {
			m.Problem(s.key, err)
		}
	}
	*field++
}

// carry writes the token of a record, and returns the count that it belongs to.
func (m *migration) carry(ctx context.Context, s *stored) (*int, error) {
	if m.Prefix != "" && !strings.HasPrefix(s.key, m.Prefix+"#") {
		return &m.counts.Other, nil
	}
	token, err := s.token(m.Language, m.Reply, m.Now())
	switch {
	case err != nil:
		return nil, err
	case token.State == record.Absent && s.expires.After(m.Now()):
		return &m.counts.Abandoned, nil
	case token.State == record.Absent:
		return &m.counts.Expired, nil
	}
	token.Key = record.NewTokenKey("", m.Scope, s.key)
	return m.put(ctx, token)
}

// put writes a token, unless there is one that is as good.
func (m *migration) put(ctx context.Context, next record.Token) (*int, error) {
	_, loaded, err := m.to.Load(ctx, nil, []record.TokenKey{next.Key})
	if err != nil {
		return nil, fmt.Errorf("load token: %w", err)
	}
	for there := loaded[0]; ; {
		switch {
		case there.State == record.Absent:
		case there.Owner != owner:
			return &m.counts.Newer, nil
		case !later(&next, &there):
			return &m.counts.Present, nil
		}
		next.Epoch = there.Epoch + 1
		if !m.DryRun {
			there, err = m.to.SwapToken(ctx, there, next)
		}
		switch {
		case err == nil && next.State == record.Leased:
			return &m.counts.Leased, nil
		case err == nil:
			return &m.counts.Copied, nil
		case !errors.Is(err, record.ErrConflict):
			return nil, fmt.Errorf("write token: %w", err)
		}
	}
}

// later reports whether a record says more than the one that was copied before: it is done, or has
// run again since.
func later(next, before *record.Token) bool {
	return next.State > before.State || next.State == before.State && (next.Expires.After(before.Expires) || next.Lease.After(before.Lease))
}
