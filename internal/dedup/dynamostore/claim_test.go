package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/dedup/storetest"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// shelf keeps claims in memory.
type shelf struct {
	mu        sync.Mutex
	claims    map[string][]byte
	beforeGet func()
	putErr    error
	got       []string
}

func newShelf() *shelf { return &shelf{claims: map[string][]byte{}} }

func (s *shelf) Put(_ context.Context, name string, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.putErr == nil {
		s.claims[name] = slices.Clone(body)
	}
	return s.putErr
}

func (s *shelf) Get(_ context.Context, name string) ([]byte, bool, error) {
	if before := s.beforeGet; before != nil {
		s.beforeGet = nil
		before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, name[strings.LastIndex(name, "/")+1:])
	body, ok := s.claims[name]
	return slices.Clone(body), ok, nil
}

func (s *shelf) Delete(_ context.Context, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.claims, name)
	}
	return nil
}

func (s *shelf) List(context.Context, time.Time) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.claims)), nil
}

// kinds returns the kinds of the values on the shelf, sorted: "s" is a state, a number a pending
// entry.
func (s *shelf) kinds() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.claims {
		out = append(out, name[strings.LastIndex(name, "/")+1:])
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestStoreThatClaimsEverything(t *testing.T) {
	t.Parallel()
	client := connect(t)
	storetest.Run(t, storetest.Harness{
		RecognisesCommit: true, KeepsApart: true,
		Open: func(t *testing.T, now func() time.Time) record.Store {
			t.Helper()
			store, err := dynamostore.New(client, awstest.Tables(t, client), dynamostore.Options{Now: now, Claims: newShelf(), ClaimAbove: 1})
			if err != nil {
				t.Fatal(err)
			}
			return store
		},
	})
}

// claimWorld returns a store with a shelf, behind a lossy client.
type claimWorld struct {
	*dynamostore.Store
	shelf  *shelf
	net    *lossy
	client *dynamodb.Client
	tables dynamostore.Tables
}

func newClaimWorld(t *testing.T) *claimWorld {
	t.Helper()
	client := connect(t)
	w := &claimWorld{shelf: newShelf(), net: newLossy(), client: client, tables: awstest.Tables(t, client)}
	options := client.Options()
	options.HTTPClient = w.net
	store, err := dynamostore.New(dynamodb.New(options), w.tables, dynamostore.Options{Claims: w.shelf, ClaimAbove: 1000})
	if err != nil {
		t.Fatal(err)
	}
	w.Store = store
	return w
}

func (w *claimWorld) group(t *testing.T) record.Group {
	t.Helper()
	groups, _, err := w.Load(t.Context(), []record.GroupKey{key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return groups[0]
}

// change returns a commit of a state and of large entries.
func change(loaded record.Group, state string, numbers ...uint64) record.Commit {
	c := following(loaded, rand.Text(), numbers...)
	c.Next.State = []byte(strings.Repeat(state, 1001))
	for i := range c.Next.Pending {
		c.Next.Pending[i].Effects = []record.Effect{{To: []string{"out"}, Body: make([]byte, 1001)}}
	}
	return c
}

func (w *claimWorld) commit(t *testing.T, c record.Commit) record.Group {
	t.Helper()
	if err := w.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	g := w.group(t)
	if d := cmp.Diff(c.Next, g, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("group (-committed +loaded)\n%s", d)
	}
	return g
}

func (w *claimWorld) want(t *testing.T, kinds string) {
	t.Helper()
	if got := w.shelf.kinds(); got != kinds {
		t.Errorf("claims %q, want %q", got, kinds)
	}
}

func TestClaimsGoWithTheirReferences(t *testing.T) {
	w := newClaimWorld(t)
	g := w.commit(t, change(w.group(t), "a", 1, 2))
	w.want(t, "1 2 s")
	g = w.commit(t, change(g, "b", 3))
	w.want(t, "1 2 3 s")
	g = w.commit(t, change(g, "b", 4)) // the state is unchanged
	w.want(t, "1 2 3 4 s")
	if err := w.Clear(t.Context(), record.Clear{Group: key, Incarnation: g.Incarnation, Numbers: []uint64{2, 4}}); err != nil {
		t.Fatal(err)
	}
	w.want(t, "1 3 s")
	g = w.group(t)
	c := change(g, "b")
	c.Next.State, c.Next.Pending = []byte("small"), c.Next.Pending[:1]
	w.commit(t, c)
	w.want(t, "1")
}

func TestALosersClaimsAreDeletedAndTheWinnersStay(t *testing.T) {
	w := newClaimWorld(t)
	loaded := w.commit(t, change(w.group(t), "a"))
	first := change(loaded, "b", 1)
	after := w.commit(t, first)
	if err := w.Commit(t.Context(), change(loaded, "c", 1)); !errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v", err)
	}
	w.want(t, "1 s")
	after = w.commit(t, change(after, "b", 2)) // keeps the first one's state
	if err := w.Commit(t.Context(), first); !errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if d := cmp.Diff(after, w.group(t)); d != "" {
		t.Error(d)
	}
}

func TestACommitWithALostReplyKeepsItsClaims(t *testing.T) {
	w := newClaimWorld(t)
	loaded := w.commit(t, change(w.group(t), "a"))
	w.net.operation = "UpdateItem"
	w.commit(t, change(loaded, "b", 1))
	n, err := w.SweepClaims(t.Context(), time.Now())
	if err != nil || n != 1 { // the state from before: the lost reply listed it as replaced
		t.Errorf("swept %d, %v", n, err)
	}
	w.want(t, "1 s")
}

func TestAGroupThatIsWrittenWhileItIsReadIsReadAgain(t *testing.T) {
	w := newClaimWorld(t)
	loaded := w.commit(t, change(w.group(t), "a"))
	next := change(loaded, "b")
	w.shelf.beforeGet = func() {
		if err := w.Commit(t.Context(), next); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff(next.Next, w.group(t), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

func TestAListOmitsClaimedStatesAndBodies(t *testing.T) {
	w := newClaimWorld(t)
	c := change(w.group(t), "x", 1)
	blob := record.Effect{Blob: &record.Blob{Key: "k", Staged: "staged"}}
	c.Next.Pending[0].Effects = append(c.Next.Pending[0].Effects, blob)
	g := w.commit(t, c)
	w.shelf.got = nil
	list, err := w.Groups(t.Context(), "", record.GroupKey{}, 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d groups, %v", len(list), err)
	}
	g.State, g.Pending[0].Effects[0].Body = nil, nil
	if d := cmp.Diff(g, list[0], cmpopts.EquateEmpty()); d != "" {
		t.Errorf("group (-want +got)\n%s", d)
	}
	if !slices.Equal(w.shelf.got, []string{"1"}) {
		t.Errorf("read the claims %v, want those of the entry", w.shelf.got)
	}
}

func TestNothingRefersToAClaimThatWasNotWritten(t *testing.T) {
	w := newClaimWorld(t)
	loaded := w.commit(t, change(w.group(t), "a"))
	w.shelf.putErr = errors.New("away")
	if err := w.Commit(t.Context(), change(loaded, "b", 1)); err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if d := cmp.Diff(loaded, w.group(t)); d != "" {
		t.Error(d)
	}
}

func TestASweepDeletesOnlyOrphans(t *testing.T) {
	w := newClaimWorld(t)
	w.commit(t, change(w.group(t), "a", 1))
	var stray string
	for name := range w.shelf.claims {
		stray = name[:strings.Index(name, "/")] + "/attempt/s"
	}
	other := "b3RoZXIjZw/attempt/7" // other#g, which does not exist
	w.shelf.claims[stray], w.shelf.claims[other], w.shelf.claims["not one of ours"] = []byte("x"), []byte("x"), []byte("x")
	if n, err := w.SweepClaims(t.Context(), time.Now()); n != 2 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if got := w.shelf.kinds(); got != "1 not one of ours s" {
		t.Errorf("left %q", got)
	}
}

// A row of claims has time for one deletion.
type row struct {
	*shelf
	names, deleted []string
}

func (r *row) List(context.Context, time.Time) ([]string, error) { return r.names, nil }

func (r *row) Delete(_ context.Context, names []string) error {
	r.deleted = append(r.deleted, names...)
	return context.DeadlineExceeded
}

func TestSweepsThatAreCutShortReachAllClaims(t *testing.T) {
	claims := &row{shelf: newShelf()}
	for i := range 250 {
		// of other#g, which does not exist
		claims.names = append(claims.names, fmt.Sprintf("b3RoZXIjZw/attempt-%03d/s", i))
	}
	store, err := dynamostore.New(&empty{}, dynamostore.Tables{Groups: "groups", Tokens: "tokens"}, dynamostore.Options{Claims: claims})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := store.SweepClaims(t.Context(), time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	slices.Sort(claims.deleted)
	if reached := slices.Compact(claims.deleted); !slices.Equal(reached, claims.names) {
		t.Errorf("100 sweeps reached %d of %d", len(reached), len(claims.names))
	}
}

func TestASweepLeavesTheClaimsOfARecordThatItCanNotRead(t *testing.T) {
	w := newClaimWorld(t)
	w.commit(t, change(w.group(t), "a"))
	_, err := w.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &w.tables.Groups, Key: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: key.Stream + "#" + key.Group}, "sk": &types.AttributeValueMemberS{Value: "STATE"},
		},
		// a newer program keeps the state elsewhere
		UpdateExpression:          aws.String("SET f = :format REMOVE s"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":format": &types.AttributeValueMemberN{Value: "2"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.SweepClaims(t.Context(), time.Now()); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

func TestALostClaimIsCorruption(t *testing.T) {
	w := newClaimWorld(t)
	w.commit(t, change(w.group(t), "a"))
	clear(w.shelf.claims)
	if _, _, err := w.Load(t.Context(), []record.GroupKey{key}, nil); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}
