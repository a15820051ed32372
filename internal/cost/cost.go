// Package cost measures what messages cost in DynamoDB: it runs the engine on tables of its own and counts requests and units as DynamoDB itself reports them.
//
// # Limits
//
// A failed condition is charged but reports no units; nobody else is at work here, so that none fails. DynamoDB Local counts nothing for an item that is missing in a batch
// read, where DynamoDB charges a read unit. Queues, functions and the API are not part of it.
package cost

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
)

// A Case is one way in which messages arrive.
type Case struct {
	// Admission of the stream.
	Admission record.Admission `json:"admission"`
	// Effects tells whether each message sends something.
	Effects bool `json:"effects"`
	// Record tells whether the group has a record: it has none where the stream orders nothing and its handler keeps no state.
	Record bool `json:"group_record"`
	// Known tells whether the groups have had messages before.
	Known bool `json:"known_group"`
	// Batch is how many messages are processed at once, Groups in how many groups they are.
	Batch  int `json:"batch"`
	Groups int `json:"groups"`
}

// A Bill is what one message of a case costs until its effects are published. The field names are a contract.
type Bill struct {
	Case
	// Requests to DynamoDB, every try counted.
	Requests float64 `json:"requests"`
	// WriteUnits are one for each KB written, ReadUnits one for each 4 KB read with strong consistency.
	WriteUnits float64 `json:"write_units"`
	ReadUnits  float64 `json:"read_units"`
	// Duplicate is what the same message costs when it comes again.
	Duplicate Units `json:"duplicate"`
}

// Units are requests and units without their case.
type Units struct {
	Requests   float64 `json:"requests"`
	WriteUnits float64 `json:"write_units"`
	ReadUnits  float64 `json:"read_units"`
}

// Prices are in dollars per million units.
type Prices struct {
	Write float64 `json:"write"`
	Read  float64 `json:"read"`
}

// PerMillion is the price of a million messages, in dollars.
func (p Prices) PerMillion(u Units) float64 { return u.WriteUnits*p.Write + u.ReadUnits*p.Read }

// Units gives the bill without its case and its duplicate.
func (b Bill) Units() Units { return Units{b.Requests, b.WriteUnits, b.ReadUnits} }

// Cases are those that are measured.
func Cases() []Case {
	var out []Case
	sizes := []struct {
		known         bool
		batch, groups int
	}{{false, 1, 1}, {true, 1, 1}, {false, 10, 1}, {false, 10, 10}}
	for _, admission := range []record.Admission{record.ByKey, record.ByToken, record.BySequence} {
		for _, effects := range []bool{false, true} {
			for _, n := range sizes {
				out = append(out, Case{admission, effects, true, n.known, n.batch, n.groups})
			}
		}
	}
	for _, n := range sizes {
		if !n.known { // without a record nothing is known of a group
			out = append(out, Case{record.ByKey, true, false, false, n.batch, n.groups})
		}
	}
	return out
}

// Options say what is measured. Zero fields take the defaults in their comments.
type Options struct {
	// Body is the size of a message's body and of the group's state after it, in bytes. Defaults to 0: a few bytes.
	Body int
	// Now defaults to time.Now.
	Now func() time.Time
	// Done is called after each case. Defaults to nothing.
	Done func()
}

// Measure creates two tables with names that nobody else has, measures every case, and deletes them, also after an error.
func Measure(ctx context.Context, options dynamodb.Options, o Options) (bills []Bill, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &meter{body: o.Body, now: o.Now}
	m.Attach(&options)
	client := dynamodb.New(options)
	tables, drop, err := createTables(ctx, client)
	defer func() { err = errors.Join(err, drop()) }()
	if err != nil {
		return nil, err
	}
	m.store, err = dynamostore.New(client, tables, dynamostore.Options{Now: o.Now})
	if err != nil {
		return nil, err
	}
	for i, c := range Cases() {
		bill, err := m.measure(ctx, c, fmt.Sprintf("case-%d", i))
		if err != nil {
			return nil, fmt.Errorf("measure %+v: %w", c, err)
		}
		bills = append(bills, bill)
		if o.Done != nil {
			o.Done()
		}
	}
	return bills, nil
}

const (
	tableTime = time.Minute
	dropTime  = 30 * time.Second
)

// createTables gives the tables, and what deletes those that were made; it is never nil.
func createTables(ctx context.Context, client *dynamodb.Client) (dynamostore.Tables, func() error, error) {
	name := "once-cost-" + rand.Text()
	tables := dynamostore.Tables{Groups: name + "-groups", Tokens: name + "-tokens"}
	var made []*string
	drop := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
		defer cancel()
		var errs []error
		for _, table := range made {
			if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: table}); err != nil {
				errs = append(errs, fmt.Errorf("delete table %s, which is left over: %w", *table, err))
			}
		}
		return errors.Join(errs...)
	}
	for _, in := range dynamostore.Schema(tables) {
		if _, err := client.CreateTable(ctx, in); err != nil {
			return tables, drop, fmt.Errorf("create table: %w", err)
		}
		made = append(made, in.TableName)
		if err := dynamodb.NewTableExistsWaiter(client).Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, tableTime); err != nil {
			return tables, drop, fmt.Errorf("wait for table: %w", err)
		}
	}
	return tables, drop, nil
}

// A meter runs cases on one store.
type meter struct {
	dynamostore.Meter
	store *dynamostore.Store
	body  int
	now   func() time.Time
}

func (m *meter) measure(ctx context.Context, c Case, stream string) (Bill, error) {
	queues := &sink{}
	engine, err := m.engine(c, stream, queues)
	if err != nil {
		return Bill{}, err
	}
	messages := m.messages(c, stream)
	if c.Admission == record.ByToken {
		for _, message := range messages { // the front door's part, which is not counted here
			if _, _, err := engine.Issue(ctx, message); err != nil {
				return Bill{}, fmt.Errorf("issue token: %w", err)
			}
		}
	}
	measured := messages[:c.Batch]
	if c.Known {
		if _, err := m.process(ctx, engine, queues, measured, record.Processed); err != nil {
			return Bill{}, err
		}
		measured = messages[c.Batch:]
	}
	cost, err := m.process(ctx, engine, queues, measured, record.Processed)
	if err != nil {
		return Bill{}, err
	}
	again, err := m.process(ctx, engine, queues, measured, record.Duplicate)
	if err != nil {
		return Bill{}, err
	}
	each := cost.per(c.Batch)
	return Bill{Case: c, Requests: each.Requests, WriteUnits: each.WriteUnits, ReadUnits: each.ReadUnits, Duplicate: again.per(c.Batch)}, nil
}

func (m *meter) engine(c Case, stream string, queues *sink) (*dedup.Engine, error) {
	to := []string{}
	if c.Effects {
		to = append(to, "sink")
	}
	return dedup.New(dedup.Config{
		Streams: []record.Stream{{Name: stream, Admission: c.Admission, Handler: m.handler(c, to), Stateless: !c.Record, Unordered: !c.Record}},
		Store:   m.store, Queues: queues, Senders: map[string]record.Sender{"sink": queues}, Now: m.now,
	})
}

// handler changes the group's state where it has a record, and sends where there is a destination.
func (m *meter) handler(c Case, to []string) record.Handler {
	return func(_ context.Context, a *record.Attempt, message record.Message) error {
		if c.Record {
			a.State = append([]byte("state "), message.Body...)
		}
		if len(to) > 0 {
			a.Send(record.Effect{To: to, Body: message.Body})
		}
		return nil
	}
}

// messages makes two batches, the second for the same groups.
func (m *meter) messages(c Case, stream string) []record.Message {
	out := make([]record.Message, 2*c.Batch)
	for i := range out {
		group := i % c.Groups
		x := record.Message{
			Stream: stream, ID: fmt.Sprint("id-", i), Group: fmt.Sprint("group-", group), Accepted: m.now(),
			Body: append([]byte(fmt.Sprint("body ", i)), make([]byte, m.body)...),
		}
		if c.Admission == record.BySequence {
			x.ID, x.Source, x.Sequence = "", "sender", uint64(i/c.Groups+1) //nolint:gosec // a small number
		}
		out[i] = x
	}
	return out
}

// total is what a batch cost.
type total dynamostore.Cost

func (t total) per(n int) Units {
	count := float64(n)
	return Units{float64(t.Requests) / count, t.WriteUnits / count, t.ReadUnits / count}
}

// process processes and publishes a batch.
func (m *meter) process(ctx context.Context, engine *dedup.Engine, queues *sink, messages []record.Message, want record.Kind) (total, error) {
	m.Reset()
	for _, o := range engine.Process(ctx, messages) {
		if o.Kind != want {
			return total{}, fmt.Errorf("a message is %v, not %v: %s %w", o.Kind, want, o.Detail, errors.Join(o.Err))
		}
	}
	if err := errors.Join(engine.Publish(ctx, queues.taken())...); err != nil {
		return total{}, fmt.Errorf("publish: %w", err)
	}
	return total(m.Reset()), nil
}
