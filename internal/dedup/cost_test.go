package dedup_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

var update = flag.Bool("update", false, "write docs/costs.md")

// cost counts the store calls of a batch, until its effects are published.
type cost struct {
	reads, calls int
	writes       int // records written
	requests     int // to DynamoDB
	records      int // read
}

// meter counts the calls to a store.
type meter struct {
	portStore
	mu sync.Mutex
	cost
}

func (m *meter) pay(c cost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	m.reads += c.reads
	m.writes += c.writes
	m.requests += c.requests
	m.records += c.records
}

// The number of items in one request of DynamoDB.
const (
	batchGet   = 100
	batchWrite = 25
)

func ceil(n, by int) int { return (n + by - 1) / by }

func (m *meter) Load(ctx context.Context, g []record.GroupKey, t []record.TokenKey) ([]record.Group, []record.Token, error) {
	m.pay(cost{reads: 1, requests: ceil(len(g), batchGet) + ceil(len(t), batchGet), records: len(g) + len(t)})
	return m.portStore.Load(ctx, g, t)
}

func (m *meter) Commit(ctx context.Context, c record.Commit) error {
	m.pay(cost{writes: 1 + len(c.Hold) + len(c.Unhold) + len(c.Done), requests: 1})
	return m.portStore.Commit(ctx, c)
}

func (m *meter) Clear(ctx context.Context, c record.Clear) error {
	m.pay(cost{writes: 1, requests: 1})
	return m.portStore.Clear(ctx, c)
}

func (m *meter) Held(ctx context.Context, k record.HeldKey, n int) ([]record.Held, error) {
	m.pay(cost{reads: 1, requests: 1, records: n})
	return m.portStore.Held(ctx, k, n)
}

func (m *meter) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	m.pay(cost{writes: 1, requests: 1})
	return m.portStore.SwapToken(ctx, old, next)
}

func (m *meter) MarkDone(ctx context.Context, tokens []record.Token) error {
	m.pay(cost{writes: len(tokens), requests: ceil(len(tokens), batchWrite)})
	return m.portStore.MarkDone(ctx, tokens)
}

// endToEnd is the line of docs/costs.md after which another test writes the page.
const endToEnd = "<!-- What follows is written by: go test ./internal/system/function -run TheUsageOfAMessage -update-usage -->\n"

// A bill is one row of the table.
type bill struct {
	stream, effects, batch string
	keepDone               bool // as on AWS; ownGroup implies it
	messages               int
	cost
}

// hold checks a limit of the design for a row: requests and records written for each message; 0
// means no limit.
type hold struct{ requests, writes float64 }

func holds() map[string]hold {
	return map[string]hold{
		ownGroup + " no alone": {3, 1}, ownGroup + " yes alone": {5, 2}, ownGroup + " no ten of ten groups": {1.2, 1}, ownGroup + " yes ten of ten groups": {0, 2},
		"key no alone": {4, 2}, "key yes alone": {0, 3},
		"key no ten of ten groups": {1.5, 2}, "token no ten of ten groups": {1.5, 2},
		"sequence yes alone": {0, 2}, "sequence no alone": {0, 1}, "sequence yes ten of one group": {0, 0.2}, "sequence no ten of one group": {0, 0.1},
	}
}

func TestTheCostOfAMessage(t *testing.T) {
	bills := bills(t)
	limits := holds()
	for _, b := range bills {
		name := strings.Join([]string{b.stream, b.effects, b.batch}, " ")
		n := float64(b.messages)
		limit := limits[name]
		delete(limits, name)
		if limit.requests > 0 && float64(b.requests)/n > limit.requests || limit.writes > 0 && float64(b.writes)/n > limit.writes {
			t.Errorf("%s: %+v for %d messages is more than %+v each", name, b.cost, b.messages, limit)
		}
		if b.batch == "a duplicate" && (b.calls != 1 || b.reads != 1 || b.writes != 0) {
			t.Errorf("%s: %+v is more than one read", name, b.cost)
		}
	}
	if len(limits) > 0 {
		t.Errorf("no rows for %v", limits)
	}
	page := filepath.Join("..", "..", "docs", "costs.md")
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(before), endToEnd)
	if !ok {
		t.Fatalf("docs/costs.md has no line %q, after which another test writes", endToEnd)
	}
	want := costPage(bills) + endToEnd + rest
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), want); diff != "" {
		t.Errorf("docs/costs.md is not up to date, see -update (-written +counted):\n%s", diff)
	}
}

// TestTheUnitsOfAMessageOnDynamoDB counts the records that one message alone writes and reads: each
// is a unit, because it has less than 1 KB. The table "Units" has the same figures. The budgets
// read the attributes: go -C prove run ./check budget.
func TestTheUnitsOfAMessageOnDynamoDB(t *testing.T) {
	page := costPage(nil)
	for _, c := range []struct {
		name, stream, effects, row string
		admission                  record.Stream
	}{
		{"key-own-group", ownGroup, "no", "`key`, naming no group", byKey},
		{"key-own-group-effect", ownGroup, "yes", "with an effect", byKey},
		{"key-group", "key", "no", "`key`, in a new group that it names", byKey},
		{"token-group", "token", "no", "", byToken}, // the table has no row for it
		{"sequence", "sequence", "no", "`sequence`", bySequence},
		{"sequence-effect", "sequence", "yes", "`sequence`, with an effect", bySequence},
	} {
		got := count(t, c.admission, bill{stream: c.stream, effects: c.effects, batch: "alone", keepDone: true})
		row := fmt.Sprintf("\n| %s | %d.0 | %d.0 |", c.row, got.writes, got.records)
		if c.row != "" && !strings.Contains(page, row) {
			t.Errorf("%s: %d write units and %d read units are not those of the page", c.name, got.writes, got.records)
		}
		t.Attr("write-units-"+c.name, strconv.Itoa(got.writes))
		t.Attr("read-units-"+c.name, strconv.Itoa(got.records))
	}
}

// bills returns the cost of every row.
func bills(t *testing.T) []bill {
	t.Helper()
	var out []bill
	for _, s := range []struct {
		name   string
		stream record.Stream
	}{{"key", byKey}, {"token", byToken}, {"sequence", bySequence}, {"key, no group record", relay}} {
		for _, effects := range []string{"no", "yes"} {
			for _, batch := range []string{"alone", "after another of its group", "a duplicate", "ten of one group", "ten of ten groups"} {
				out = append(out, count(t, s.stream, bill{stream: s.name, effects: effects, batch: batch}))
			}
		}
	}
	for _, effects := range []string{"no", "yes"} {
		for _, batch := range []string{"alone", "a duplicate", "ten of ten groups"} {
			out = append(out, count(t, byKey, bill{stream: ownGroup, effects: effects, batch: batch}))
		}
	}
	return out
}

// ownGroup is the row of messages that are groups of their own.
const ownGroup = "key, a group of its own"

// count runs one row: the batch, and the publishing that it triggers.
func count(t *testing.T, stream record.Stream, b bill) bill {
	t.Helper()
	l := newLab(t)
	w := l.worker(stream)
	m := &meter{portStore: portStore{w}}
	own := b.stream == ownGroup
	keepDone := own || b.keepDone
	metered := l.workerOf(dedup.Config{Streams: []record.Stream{stream}, Store: m, KeepDone: keepDone})
	message := func(group string, n int) record.Message {
		out := record.Message{Stream: "s", Group: group, ID: fmt.Sprintf("%s%d", group, n)}
		if own {
			out.Group = ""
		}
		if stream.Admission == record.BySequence {
			out.Source, out.Sequence = "p", uint64(n)
		}
		if b.effects == "yes" {
			out.Body = []byte("send")
		}
		if stream.Admission == record.ByToken {
			w.issue(out)
		}
		return out
	}
	batch := []record.Message{message("g", 1)}
	switch b.batch {
	case "a duplicate":
		before := l.workerOf(dedup.Config{Streams: []record.Stream{stream}, KeepDone: keepDone})
		before.process(batch...)
		publishAll(t, before)
	case "after another of its group":
		w.process(batch...)
		l.publish(stream)
		batch = []record.Message{message("g", 2)}
	case "ten of one group":
		for n := 2; n <= 10; n++ {
			batch = append(batch, message("g", n))
		}
	case "ten of ten groups":
		for n := 2; n <= 10; n++ {
			batch = append(batch, message(fmt.Sprintf("g%d", n), 1))
		}
	}
	metered.process(batch...)
	var keys []record.GroupKey
	for _, x := range l.triggers {
		keys = append(keys, x.Key)
	}
	if len(keys) > 0 {
		if err := metered.Publish(t.Context(), keys)[0]; err != nil {
			t.Fatal(err)
		}
	}
	b.messages, b.cost = len(batch), m.cost
	return b
}

func costPage(bills []bill) string {
	var b strings.Builder
	b.WriteString(`# What a message costs

A new message costs two to five store calls and one to three writes, and less in a batch. What it uses of every service is [at the end](#end-to-end). On DynamoDB a message that names no group costs one write, with an effect two ("a group of its own"). A duplicate costs one call and no write. The table counts each message of a batch until its effects are published.
A test of the engine counts (` + "`go test ./internal/dedup -run TestTheCostOfAMessage -update`" + ` writes this page). No other worker is active: a lost race costs one load and one commit more.

- **Store calls**: calls to the store.
- **Requests**: requests as DynamoDB counts them. A call that reads groups and tokens is two requests; a call that marks tokens done is one request for each 25 tokens.
- **Writes**: records written.

Not in the table:

- A message by HTTP, on a stream with the admission key or token, costs one call, one request and one write more, because the server issues its token first. With the admission key and a handler with state it also reads the group that its key
  names: one call and one request more, and on DynamoDB one read unit.
- On DynamoDB, a message by key that names a group also reads the group that its key names, in the same call: one read unit more, if its handler keeps state. [Why](protocol.md#a-message-that-is-a-group-of-its-own).
- An [issued epoch](http.md#epochs-of-sources): each request with messages under it reads the record of each of their sources, one read unit; a write of it follows once a day. To issue one is a read unit and a write unit.
- A log: on DynamoDB a commit with entries is a transaction, of two write units for each KiB of the group's item and two for each KiB of the chunk that has its entries. One message of 100 bytes costs 4 units, ten of one group 8, and
  one of 10 KB 22. Reading costs a read unit for the group, and one for each 4 KiB of chunks: ten messages of 100 bytes cost 2. The embedded store writes one key more. A test holds these figures
  (` + "`go test ./internal/dedup/dynamostore -run TestTheCostOfALogInUnits`" + `).
- On AWS, a message of more than 1 MiB in SQS, such as a body of bytes of more than about 780 KB, costs a PUT and a GET of S3, and 60 days of storage. Each time that it is put on a queue again costs the same. SQS counts 64 KB of any other message as a
  request: one of 1 MiB is 16. An effect of more than 100 KiB that waits in a group record costs a PUT, a GET for each load of the record, and a DELETE.
- A held message costs two writes more, and its commits are transactions. Another delivery of a held message costs a commit.

| admission | effects | batch | store calls | requests | writes |
|---|---|---|---|---|---|
`)
	for _, x := range bills {
		n := float64(x.messages)
		fmt.Fprintf(&b, "| %s | %s | %s | %.1f | %.1f | %.1f |\n", x.stream, x.effects, x.batch, float64(x.calls)/n, float64(x.requests)/n, float64(x.writes)/n)
	}
	b.WriteString(`
The fifth request in "after another of its group": a message by key or token without effects looks up the token of the previous message, to remove its entry from the record.

The embedded store marks the token of a message without effects in the commit itself. There such a message costs two store calls and two writes, also after another of its group.

On DynamoDB, a record written costs one unit for each KiB of its item, before or after the write, whichever is larger. The item of a group holds its state, its senders and what is pending; with a state it is stored until the handler deletes it.
Ten messages of one group, with an effect of 30 bytes each, fit into one KiB beside a state of 30 bytes ([how](schema.md#pending-entries)). So a batch of them costs one unit for the commit and one for
the clear: 0.2 for each message, with its effect. [Performance](performance.md#on-dynamodb) has the units of every case as DynamoDB reports them.

## Readers of logs

On one machine readers are woken by the commit: an idle one costs memory, and one read every five seconds. On AWS a commit wakes no reader: a reader that waits reads again after 0.1, 0.3, 0.7, 1.5, 2.5, 3.5 and 4.5 seconds, and then gets an empty answer.
Each look reads the record of the group: one read unit for each 4 KB. The function runs all the time that it waits, and is billed for it, so a request waits for 5 seconds at most. A reader that follows an idle log without a pause makes 720 requests an hour, and keeps one function busy. If minutes are soon enough, read without ` + "`wait`" + `.

## Sessions

On DynamoDB, of a pool with 8 partitions and entries of 100 bytes that were appended ten at a time (` + "`go test -v ./internal/dedup/dynamostore -run TestTheCostOfASessionInUnits`" + `):

| call | write units | read units |
|---|---|---|
| to open a session | 1 | 2 |
| to read 1,000 entries and commit them, 100 at a time | 11 | 142 |
| to read, if there is nothing | 0 | 10: the session, the pool, and the record of each partition |
| to renew or release | 1 | 1 |
| to ask whether the stream has ended, as each function does until it has | 0 | 1 |
| the look for entries that wait for long, each hour | 0 | 17 |
| the look for streams whose end waits, each minute | 0 | 1 for each pool |

A consumer that waits looks as often as [a reader of a log](#readers-of-logs). On one machine a session that is idle costs no write: its lease is kept in memory and renewed there.

## Handlers that are Lambda functions

A [handler](handlers.md#on-aws) is invoked once for the messages of a group in a batch, and once more for the first of them if that fails. An invocation is billed twice: the handler runs, and the process function waits for it. Lambda logs
about 600 bytes for each. A handler behind a URL costs the wait, and what runs it.

## Units

The units of DynamoDB for one message, as one proxy counted them in all rows (` + "`go -C bench run ./powertools`" + `). Each message changes one item of less than 1 KB.
Powertools for AWS Lambda write their record twice, and the handler writes the item; they send no effects.

| | write units | read units |
|---|---|---|
| Powertools for AWS Lambda, Python or TypeScript | 3.0 | 0 |
| ` + "`key`" + `, naming no group | 1.0 | 2.0 |
| with an effect | 2.0 | 3.0 |
| by HTTP | 2.0 | 3.0 |
| by HTTP, with an effect | 3.0 | 4.0 |
| ` + "`key`" + `, in a new group that it names | 2.0 | 3.0 |
| ` + "`key`" + `, batches of ten of one group | 1.1 | 3.1 |
| ` + "`sequence`" + ` | 1.0 | 1.0 |
| ` + "`sequence`" + `, with an effect | 2.0 | 2.0 |
| ` + "`sequence`" + `, batches of ten of one group, with effects | 0.2 | 0.2 |
| a duplicate with a reply of 20 KB: Powertools | 21.0 | 0 |
| the same: ` + "`key`" + ` | 0 | 9.0 |
| the same: ` + "`sequence`" + ` | 0 | 1.0 |

`)
	return b.String()
}
