package dynamostore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

var key = record.GroupKey{Stream: "orders", Group: "a"}

// A lossy client loses the reply of the next request of one operation, after the request was
// applied, and calls meanwhile before the client retries.
type lossy struct {
	inner     *awshttp.BuildableClient
	operation string
	meanwhile func()
	requests  []string // operations, in order
}

func newLossy() *lossy { return &lossy{inner: awshttp.NewBuildableClient()} }

func (l *lossy) Do(r *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	l.requests = append(l.requests, operation)
	response, err := l.inner.Do(r)
	if err != nil || operation != l.operation {
		return response, err
	}
	l.operation = ""
	if l.meanwhile != nil {
		l.meanwhile()
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	return nil, syscall.ECONNRESET
}

// world is a store behind a lossy client, and one without faults.
type world struct {
	*dynamostore.Store
	beside *dynamostore.Store
	net    *lossy
	tables dynamostore.Tables
}

func newWorld(t *testing.T) *world {
	t.Helper()
	client := connect(t)
	tables := awstest.Tables(t, client)
	l := newLossy()
	options := client.Options()
	options.HTTPClient = l
	return &world{Store: open(t, dynamodb.New(options), tables, time.Now), beside: open(t, client, tables, time.Now), net: l, tables: tables}
}

func (w *world) group(t *testing.T) record.Group {
	t.Helper()
	groups, _, err := w.beside.Load(t.Context(), []record.GroupKey{key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return groups[0]
}

// following returns a commit that adds pending entries.
func following(loaded record.Group, attempt string, numbers ...uint64) record.Commit {
	c := record.Commit{Loaded: loaded, Next: loaded, Attempt: attempt}
	c.Next.Version++
	c.Next.Incarnation, c.Next.Retention = 1000, time.Hour
	c.Next.Pending = slices.Clone(loaded.Pending)
	for _, n := range numbers {
		c.Next.Pending = append(c.Next.Pending, record.Pending{Number: n, Attempt: attempt})
	}
	return c
}

// appendChunks adds chunks to a commit that end at these numbers.
func appendChunks(c *record.Commit, ends ...uint64) {
	for _, last := range ends {
		c.Append = append(c.Append, record.Chunk{Group: key, Incarnation: c.Next.Incarnation, First: c.Next.Log.Last + 1, Last: last, Data: []byte(c.Attempt)})
		c.Next.Log.Last = last
	}
}

// chunks returns the whole log of the group.
func (w *world) chunks(t *testing.T) []record.Chunk {
	t.Helper()
	g := w.group(t)
	chunks, err := w.beside.ReadLog(t.Context(), record.LogRange{Group: key, Incarnation: g.Incarnation, Last: g.Log.Last + 100, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

func held(sequence uint64) record.Held {
	return record.Held{Message: record.Message{Stream: key.Stream, Group: key.Group, Source: "s", Epoch: 1, Sequence: sequence}}
}

func (w *world) commit(t *testing.T, c record.Commit) record.Group {
	t.Helper()
	if err := w.beside.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return w.group(t)
}

func TestACommitWithALostReplySucceeds(t *testing.T) {
	for _, c := range []struct {
		operation string
		version   uint64
		hold      []record.Held
		ends      []uint64
	}{
		{"PutItem", 0, nil, nil},
		{"UpdateItem", 1, nil, nil},
		{"TransactWriteItems", 1, []record.Held{held(5)}, nil},
		{"TransactWriteItems", 0, nil, []uint64{3}},
		{"TransactWriteItems", 1, nil, []uint64{2, 3}},
	} {
		t.Run(fmt.Sprint(c.operation, c.ends), func(t *testing.T) {
			w := newWorld(t)
			loaded := w.group(t)
			if c.version > 0 {
				loaded = w.commit(t, following(loaded, "first", 1))
			}
			next := following(loaded, rand.Text(), 2)
			next.Hold = c.hold
			appendChunks(&next, c.ends...)
			w.net.operation = c.operation
			if err := w.Commit(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			if g := w.group(t); g.Version != c.version+1 {
				t.Errorf("version %d after one commit on version %d", g.Version, c.version)
			}
			if chunks := w.chunks(t); len(chunks) != len(c.ends) {
				t.Errorf("%d chunks, want %d", len(chunks), len(c.ends))
			}
			if want := []string{c.operation, c.operation}; !slices.Equal(w.net.requests, want) {
				t.Errorf("requests %v, want %v", w.net.requests, want)
			}
		})
	}
}

func TestACommitThatMayHaveBeenOverwrittenIsNoConflict(t *testing.T) {
	w := newWorld(t)
	loaded := w.commit(t, following(w.group(t), "first", 1))
	w.net.operation = "UpdateItem"
	w.net.meanwhile = func() { w.commit(t, following(w.group(t), "theirs", 3)) }
	err := w.Commit(t.Context(), following(loaded, "mine", 2))
	if err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want an ambiguous error: the commit was applied", err)
	}
	if g := w.group(t); g.Version != 3 || len(g.Pending) != 3 {
		t.Errorf("version %d with %d entries, want both commits", g.Version, len(g.Pending))
	}
}

// A transaction that is sent again under its name within ten minutes is not applied again, and its
// condition is not checked: the answer is that of the first try.
func TestAnAppendThatMayHaveBeenOverwrittenAppendsOnce(t *testing.T) {
	w := newWorld(t)
	loaded := w.commit(t, following(w.group(t), "first", 1))
	mine := following(loaded, rand.Text(), 2)
	appendChunks(&mine, 2)
	w.net.operation = "TransactWriteItems"
	w.net.meanwhile = func() {
		theirs := following(w.group(t), rand.Text(), 3)
		appendChunks(&theirs, 4)
		w.commit(t, theirs)
	}
	if err := w.Commit(t.Context(), mine); errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, and the commit was applied", err)
	}
	if g, chunks := w.group(t), w.chunks(t); g.Version != 3 || g.Log.Last != 4 || len(chunks) != 2 || string(chunks[0].Data) != mine.Attempt {
		t.Errorf("version %d, %d entries in %d chunks", g.Version, g.Log.Last, len(chunks))
	}
}

func TestASwapWithALostReplySucceeds(t *testing.T) {
	token := record.NewTokenKey("", "orders", "1")
	issued := record.Token{Key: token, State: record.Issued, Owner: "a"}
	leased := record.Token{Key: token, State: record.Leased, Owner: "b", Epoch: 1}
	w := newWorld(t)
	for _, step := range []struct {
		operation string
		old, next record.Token
	}{{"PutItem", record.Token{Key: token}, issued}, {"PutItem", issued, leased}, {"DeleteItem", leased, record.Token{Key: token}}} {
		w.net.operation = step.operation
		if got, err := w.SwapToken(t.Context(), step.old, step.next); err != nil || got != step.next {
			t.Fatalf("%v to %v: %v, %v", step.old.State, step.next.State, got.State, err)
		}
	}
}

func TestASwapThatMayHaveBeenOverwrittenIsNoConflict(t *testing.T) {
	token := record.NewTokenKey("", "orders", "1")
	w := newWorld(t)
	mine := record.Token{Key: token, State: record.Leased, Owner: "mine", Epoch: 1}
	w.net.operation = "PutItem"
	w.net.meanwhile = func() {
		if _, err := w.beside.SwapToken(t.Context(), mine, record.Token{Key: token, State: record.Leased, Owner: "theirs", Epoch: 2}); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.SwapToken(t.Context(), record.Token{Key: token}, mine); err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want an ambiguous error: the swap was applied", err)
	}
}

func TestAClearWithALostReplySucceeds(t *testing.T) {
	w := newWorld(t)
	w.commit(t, following(w.group(t), "first", 1, 2))
	w.net.operation = "UpdateItem"
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	if err := w.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1000, Numbers: []uint64{1, 2}, Now: at.Add(-time.Hour), Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if g := w.group(t); len(g.Pending) != 0 || !g.Expires.Equal(at) {
		t.Errorf("%d entries are left, expiry %s, want %s", len(g.Pending), g.Expires, at)
	}
}

func TestAClearOfAllThatIsPendingIsOneRequest(t *testing.T) {
	w := newWorld(t)
	w.commit(t, following(w.group(t), "first", 1, 2))
	if err := w.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1000, Numbers: []uint64{1, 2}, Now: time.Now(), Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	lasting := following(w.group(t), "second", 3, 4)
	lasting.Next.Retention, lasting.Next.Expires = 0, time.Time{}
	w.commit(t, lasting)
	// the publisher knows from its view that the record is kept for ever
	if err := w.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1000, Numbers: []uint64{3, 4}, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"UpdateItem", "UpdateItem"}; !slices.Equal(w.net.requests, want) {
		t.Errorf("requests %v, want %v", w.net.requests, want)
	}
}

func many(from, to uint64) []uint64 {
	var out []uint64
	for n := from; n <= to; n++ {
		out = append(out, n)
	}
	return out
}

func TestACommitOfMoreEntriesThanAnExpressionNames(t *testing.T) {
	w := newWorld(t)
	loaded := w.commit(t, following(w.group(t), "first", many(1, 400)...))
	if err := w.beside.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1000, Numbers: []uint64{7}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context(), following(loaded, "mine", many(401, 800)...)); !errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want a conflict: the map would bring the cleared entry back", err)
	}
	loaded = w.group(t)
	sent := map[uint64][]record.Sent{8: {{Effect: 1, To: "ledger"}}}
	if err := w.beside.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1000, Sent: sent}); err != nil {
		t.Fatal(err)
	}
	g := w.commit(t, following(loaded, "mine", many(401, 800)...))
	if len(g.Pending) != 799 || !slices.Equal(g.Pending[6].Sent, sent[8]) {
		t.Errorf("%d entries, want 799; entry %d has %v sent", len(g.Pending), g.Pending[6].Number, g.Pending[6].Sent)
	}
	if err := w.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1000, Numbers: many(1, 800), Now: time.Now(), Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if g := w.group(t); len(g.Pending) != 0 || g.Expires.IsZero() {
		t.Errorf("%d entries are left, expiry %s", len(g.Pending), g.Expires)
	}
}

func TestARecordAboveTheLimitIsRefused(t *testing.T) {
	w := newWorld(t)
	large := bytes.Repeat([]byte("x"), dynamostore.MaxItem)
	c := following(w.group(t), "mine")
	c.Next.State = large
	_, swapErr := w.SwapToken(t.Context(), record.Token{}, record.Token{State: record.Done, Reply: &record.Reply{Body: large}})
	h := held(2)
	h.Message.Body = large
	for name, err := range map[string]error{
		"commit": w.Commit(t.Context(), c),
		"swap":   swapErr,
		"mark":   w.MarkDone(t.Context(), []record.Token{{State: record.Done, Reply: &record.Reply{Body: large}}}),
		"hold":   w.Commit(t.Context(), record.Commit{Loaded: w.group(t), Next: record.Group{Key: key, Version: 1}, Hold: []record.Held{h}}),
	} {
		if !errors.Is(err, dynamostore.ErrTooLarge) || errors.Is(err, record.ErrConflict) {
			t.Errorf("%s: got %v, want %v", name, err, dynamostore.ErrTooLarge)
		}
	}
	if len(w.net.requests) > 0 {
		t.Errorf("requests %v", w.net.requests)
	}
	c.Next.State = large[:dynamostore.MaxItem-200]
	if err := w.Commit(t.Context(), c); err != nil {
		t.Errorf("a record just below the limit: %v", err)
	}
}

// A lazy client processes half of a batch.
type lazy struct{ dynamostore.Client }

func (l lazy) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	left := map[string]types.KeysAndAttributes{}
	for table, keys := range in.RequestItems {
		half := (len(keys.Keys) + 1) / 2
		rest := keys
		keys.Keys, rest.Keys = keys.Keys[:half], keys.Keys[half:]
		in.RequestItems[table] = keys
		if len(rest.Keys) > 0 {
			left[table] = rest
		}
	}
	out, err := l.Client.BatchGetItem(ctx, in, options...)
	if err == nil {
		out.UnprocessedKeys = left
	}
	return out, err
}

func (l lazy) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	left := map[string][]types.WriteRequest{}
	for table, writes := range in.RequestItems {
		half := (len(writes) + 1) / 2
		in.RequestItems[table] = writes[:half]
		if len(writes) > half {
			left[table] = writes[half:]
		}
	}
	out, err := l.Client.BatchWriteItem(ctx, in, options...)
	if err == nil {
		out.UnprocessedItems = left
	}
	return out, err
}

func TestUnprocessedItemsAreRetried(t *testing.T) {
	client := connect(t)
	tables := awstest.Tables(t, client)
	pauses := 0
	store, err := dynamostore.New(lazy{client}, tables, dynamostore.Options{Pause: func(context.Context, int) error { pauses++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	var keys []record.TokenKey
	var done []record.Token
	for i := range 60 {
		keys = append(keys, record.NewTokenKey("", "orders", string(rune('A'+i))))
		done = append(done, record.Token{Key: keys[i], State: record.Done})
	}
	if err := store.MarkDone(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	_, got, err := store.Load(t.Context(), nil, keys)
	if err != nil || !slices.Equal(got, done) {
		t.Errorf("tokens are not those that were marked, %v", err)
	}
	if pauses == 0 {
		t.Error("nothing was left undone")
	}
}

// A caller has to ask CommitsDone first: a commit without its tokens would lose the only proof of
// messages that have no entry.
func TestACommitThatMarksTokensDoneIsRefusedAndWritesNothing(t *testing.T) {
	w := newWorld(t)
	next := following(w.group(t), "a")
	next.Done = []record.Token{{Key: record.NewTokenKey("", "orders", "1"), State: record.Done}}
	if err := w.Commit(t.Context(), next); err == nil {
		t.Error("the commit succeeds")
	}
	if g := w.group(t); g.Version != 0 {
		t.Errorf("version %d", g.Version)
	}
}
