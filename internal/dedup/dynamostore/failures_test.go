package dynamostore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
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
