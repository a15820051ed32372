package main

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
	"github.com/effectively-once/once/internal/testkit/capacity"
)

// A Case is one pattern of messages.
type Case struct {
	// Admission of the stream.
	Admission record.Admission `json:"admission"`
	// Effects says whether each message sends an effect.
	Effects bool `json:"effects"`
	// Record says whether the group has a record. It has none if the stream is unordered and its
	// handler keeps no state.
	Record bool `json:"group_record"`
	// Own says whether each message is a group of its own: it names none.
	Own bool `json:"own_group"`
	// Known says whether the groups have had messages before.
	Known bool `json:"known_group"`
	// Batch is the number of messages in a batch, Groups the number of their groups.
	Batch  int `json:"batch"`
	Groups int `json:"groups"`
}

// A Bill is the cost of one message of a case until its effects are published. The field names are
// a contract.
type Bill struct {
	Case
	// Requests to DynamoDB, including retries.
	Requests float64 `json:"requests"`
	// WriteUnits are one per KB written, ReadUnits one per 4 KB read with strong consistency.
	WriteUnits float64 `json:"write_units"`
	ReadUnits  float64 `json:"read_units"`
	// Duplicate is the cost of a second delivery of the message.
	Duplicate Units `json:"duplicate"`
}

// Units are requests and units, without the case.
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

// PerMillion returns the price of a million messages, in dollars.
func (p Prices) PerMillion(u Units) float64 { return u.WriteUnits*p.Write + u.ReadUnits*p.Read }

// Units returns the units of the bill, without its case and its duplicate.
func (b Bill) Units() Units { return Units{b.Requests, b.WriteUnits, b.ReadUnits} }

// Cases returns the cases that are measured.
func Cases() []Case {
	var out []Case
	sizes := []struct {
		known         bool
		batch, groups int
	}{{false, 1, 1}, {true, 1, 1}, {false, 10, 1}, {false, 10, 10}}
	for _, admission := range []record.Admission{record.ByKey, record.ByToken, record.BySequence} {
		for _, effects := range []bool{false, true} {
			for _, n := range sizes {
				out = append(out, Case{Admission: admission, Effects: effects, Record: true, Known: n.known, Batch: n.batch, Groups: n.groups})
				if admission == record.ByKey && !n.known && n.batch == n.groups {
					out = append(out, Case{Admission: admission, Effects: effects, Record: true, Own: true, Batch: n.batch, Groups: n.groups})
				}
			}
		}
	}
	for _, n := range sizes {
		if !n.known { // without a record the store does not know the group
			out = append(out, Case{Admission: record.ByKey, Effects: true, Batch: n.batch, Groups: n.groups})
		}
	}
	return out
}

// Options configure the measurement. Zero fields take the defaults in their comments.
type Options struct {
	// Body is the size of a message's body and of the group's state after it, in bytes. Defaults to
	// 0: a few bytes.
	Body int
	// Now defaults to time.Now.
	Now func() time.Time
}

// Measure creates two tables with unique names, measures every case, and deletes the tables, also
// after an error.
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
	}
	return bills, nil
}

const (
	tableTime = time.Minute
	dropTime  = 30 * time.Second
)

// createTables returns the tables, and a function that deletes those it created, which is never
// nil.
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
	capacity.Meter
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
		for _, message := range messages { // done by the HTTP API, and not counted here
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
		Store:   m.store, Queues: queues, Senders: map[string]record.Sender{"sink": queues}, Now: m.now, KeepDone: true,
	})
}

// handler changes the group's state if it has a record, and sends if there is a destination.
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

// messages returns two batches, the second for the same groups.
func (m *meter) messages(c Case, stream string) []record.Message {
	out := make([]record.Message, 2*c.Batch)
	for i := range out {
		group := i % c.Groups
		x := record.Message{
			Stream: stream, ID: fmt.Sprint("id-", i), Group: fmt.Sprint("group-", group), Accepted: m.now(),
			Body: append([]byte(fmt.Sprint("body ", i)), make([]byte, m.body)...),
		}
		if c.Own {
			x.Group = ""
		}
		if c.Admission == record.BySequence {
			x.ID, x.Source, x.Sequence = "", "sender", uint64(i/c.Groups+1) //nolint:gosec // a small number
		}
		out[i] = x
	}
	return out
}

// total is the cost of a batch.
type total capacity.Cost

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
