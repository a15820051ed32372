package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// An away client fails every write with an error that leaves open whether it was applied.
type away struct{ dynamostore.Client }

var errAway = errors.New("DynamoDB is away")

func (away) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return nil, errAway
}

func (away) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return nil, errAway
}

func (away) DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return nil, errAway
}

func (away) TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return nil, errAway
}

func TestAWriteThatFailsForAnotherReasonIsNoConflict(t *testing.T) {
	store := open(t, away{}, dynamostore.Tables{Groups: "groups", Tokens: "tokens"}, time.Now)
	token := record.Token{Key: record.NewTokenKey("", "orders", "1")}
	leased := token
	leased.State = record.Leased
	loaded := record.Group{Key: key, Incarnation: 1000, Version: 1, Pending: []record.Pending{{Number: 1}}}
	holding := following(loaded, "mine", 2)
	holding.Hold = []record.Held{held(5)}
	_, take := store.SwapToken(t.Context(), token, leased)
	_, release := store.SwapToken(t.Context(), leased, token)
	for name, err := range map[string]error{
		"first commit": store.Commit(t.Context(), following(record.Group{Key: key}, "mine", 1)),
		"commit":       store.Commit(t.Context(), following(loaded, "mine", 2)),
		"transaction":  store.Commit(t.Context(), holding),
		"clear":        store.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1000, Numbers: []uint64{1}}),
		"take":         take,
		"release":      release,
		"mark":         store.MarkDone(t.Context(), []record.Token{token}),
	} {
		if !errors.Is(err, errAway) || errors.Is(err, record.ErrConflict) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A busy client refuses the next writes because of a transaction in progress, as DynamoDB Local
// never does.
type busy struct {
	dynamostore.Client
	left, refused int
}

func (b *busy) refuse(err error) error {
	if b.left == 0 {
		return nil
	}
	b.left--
	b.refused++
	return err
}

func (b *busy) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if err := b.refuse(&types.TransactionConflictException{}); err != nil {
		return nil, err
	}
	return b.Client.UpdateItem(ctx, in, options...)
}

func (b *busy) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, options ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	reasons := []types.CancellationReason{{Code: aws.String("None")}, {Code: aws.String("TransactionConflict")}}
	if err := b.refuse(&types.TransactionCanceledException{CancellationReasons: reasons}); err != nil {
		return nil, err
	}
	return b.Client.TransactWriteItems(ctx, in, options...)
}

func TestAWriteThatMeetsATransactionIsTriedAgain(t *testing.T) {
	client := &busy{Client: connect(t)}
	pauses, paused := 0, error(nil)
	store, err := dynamostore.New(client, awstest.Tables(t, client.Client.(*dynamodb.Client)), dynamostore.Options{
		Pause: func(context.Context, int) error { pauses++; return paused },
	})
	if err != nil {
		t.Fatal(err)
	}
	g := following(record.Group{Key: key}, rand.Text(), 1)
	if err := store.Commit(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func() error{
		"commit": func() error {
			c := following(g.Next, rand.Text(), g.Next.Version+1)
			appendChunks(&c, c.Next.Version)
			err := store.Commit(t.Context(), c)
			if err == nil {
				g = c
			}
			return err
		},
		"clear": func() error {
			return store.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1000, Numbers: []uint64{g.Next.Version}})
		},
	} {
		client.left, client.refused, pauses = 2, 0, 0
		if err := write(); err != nil || client.refused != 2 || pauses != 2 {
			t.Errorf("%s: %v after %d refusals and %d pauses", name, err, client.refused, pauses)
		}
		client.left, client.refused = 100, 0
		if err := write(); err == nil || errors.Is(err, record.ErrConflict) || client.refused != 5 {
			t.Errorf("%s: %v after %d refusals, want an error after 5", name, err, client.refused)
		}
		paused, client.refused = errAway, 0
		if err := write(); err == nil || errors.Is(err, record.ErrConflict) || client.refused != 1 {
			t.Errorf("%s: %v after %d refusals, want an error when the pause ends with one", name, err, client.refused)
		}
		paused, client.left = nil, 0
	}
}

func TestARecordThatWasRewrittenSinceTheScanIsNotExpired(t *testing.T) {
	w := newReplyWorld(t)
	old := done(0, "old", "small")
	if err := w.MarkDone(t.Context(), []record.Token{old}); err != nil {
		t.Fatal(err)
	}
	later := open(t, w.spy, w.tables, func() time.Time { return old.Expires })
	anew := record.Token{Key: old.Key, State: record.Issued, Owner: "new"}
	w.spy.beforeDelete = func() {
		if _, err := later.SwapToken(t.Context(), record.Token{Key: old.Key}, anew); err != nil {
			t.Error(err)
		}
	}
	if n, err := later.Expire(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if got := w.load(t, old.Key)[0]; got.State != record.Issued {
		t.Errorf("the token is %v", got.State)
	}
}

func TestAStoreWithoutClaimsRefusesRecordsThatHaveSome(t *testing.T) {
	w := newClaimWorld(t)
	w.commit(t, change(w.group(t), "a"))
	without := open(t, w.client, w.tables, time.Now)
	if _, _, err := without.Load(t.Context(), []record.GroupKey{key}, nil); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if n, err := without.SweepClaims(t.Context(), time.Now()); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestAnExpiredRecordWhoseClaimsAreGoneIsAbsent(t *testing.T) {
	w := newClaimWorld(t)
	c := change(w.group(t), "a")
	c.Next.Expires = time.Now().Add(-time.Hour)
	if err := w.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	clear(w.shelf.claims)
	if g := w.group(t); g.Version != 0 {
		t.Errorf("version %d", g.Version)
	}
	if n, err := w.SweepClaims(t.Context(), time.Now()); n != 0 || err != nil {
		t.Errorf("swept %d of none, %v", n, err)
	}
}
