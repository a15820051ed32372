package function

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/localstack/lambda/host"
)

const restoredConfig = `
streams:
  orders: {destinations: [billing]}
destinations:
  billing: {sqs: %q}
`

// A restored system has tables that can be put back to a copy. Its receiver drops each message of
// the queue billing whose identity it has seen.
type restored struct {
	settings environment.Settings
	clients  Clients
	billing  string
	seen     map[string]string // bodies by identity
}

func newRestored(t *testing.T) *restored {
	t.Helper()
	clients := NewClients(awstest.Config(t, "DYNAMODB", "SQS"))
	r := &restored{billing: awstest.Queue(t, clients.SQS, "test-"+rand.Text()+"-billing.fifo", nil), seen: map[string]string{}}
	r.settings, r.clients = emulated(t, fmt.Sprintf(restoredConfig, r.billing))
	return r
}

func (r *restored) handler(t *testing.T, function Function) Handler {
	t.Helper()
	forward := func(_ context.Context, a *record.Attempt, m record.Message) error {
		a.State = append(a.State, m.Body...)
		a.Send(record.Effect{To: []string{"billing"}, Body: m.Body})
		return nil
	}
	s, err := Open(function, r.settings, r.clients, nil, system.Stream{Stream: record.Stream{Name: "orders", Handler: forward}})
	if err != nil {
		t.Fatal(err)
	}
	return s.Handler()
}

// work sends messages of one group, lets the functions work until their queues are empty, and
// returns the bodies that the receiver takes.
func (r *restored) work(t *testing.T, bodies ...string) (taken []string) {
	t.Helper()
	ingest, process, publish := r.handler(t, Ingest), r.handler(t, Process), r.handler(t, Publish)
	for _, body := range bodies {
		event := fmt.Sprintf(`{"version":"2.0","rawPath":"/v1/streams/orders/messages","body":%q,
			"headers":{"content-type":"text/plain","idempotency-key":%q,"once-group":"g"},
			"requestContext":{"requestId":"r","http":{"method":"POST","path":"/v1/streams/orders/messages"}}}`, body, body)
		answer, err := ingest(t.Context(), json.RawMessage(event))
		if err != nil {
			t.Fatal(err)
		}
		if a := answer.(events.APIGatewayV2HTTPResponse); a.StatusCode/100 != 2 {
			t.Fatalf("%s: %+v", body, a)
		}
	}
	q := r.settings.Queues
	for _, url := range []string{q.Ingress, q.IngressFIFO} {
		r.invoke(t, process, url)
	}
	for _, url := range []string{q.Publish, q.PublishFIFO} {
		r.invoke(t, publish, url)
	}
	for _, d := range awstest.Take(t, sqsqueue.New(r.clients.SQS, r.billing)) {
		if _, copied := r.seen[d.Attributes[wire.AttrID]]; !copied {
			r.seen[d.Attributes[wire.AttrID]] = d.Body
			taken = append(taken, d.Body)
		}
	}
	return taken
}

// invoke gives the messages of a queue to a function, one after the other.
func (r *restored) invoke(t *testing.T, handler Handler, url string) {
	t.Helper()
	for _, d := range awstest.Take(t, sqsqueue.New(r.clients.SQS, url)) {
		event, err := json.Marshal(host.Event("arn:aws:sqs:us-east-1:000000000000:"+path.Base(url), []queue.Delivery{d}))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := handler(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		if a := answer.(events.SQSEventResponse); len(a.BatchItemFailures) > 0 {
			t.Fatalf("%s: %+v", d.Body, a)
		}
	}
}

// copied returns all items of both tables, by the name of the table.
func (r *restored) copied(t *testing.T) map[string][]map[string]types.AttributeValue {
	t.Helper()
	out := map[string][]map[string]types.AttributeValue{}
	for _, table := range dynamostore.Schema(r.settings.Tables) {
		pages := dynamodb.NewScanPaginator(r.clients.DynamoDB, &dynamodb.ScanInput{TableName: table.TableName})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			out[*table.TableName] = append(out[*table.TableName], page.Items...)
		}
	}
	return out
}

// putBack makes both tables equal to a copy.
func (r *restored) putBack(t *testing.T, backup map[string][]map[string]types.AttributeValue) {
	t.Helper()
	now := r.copied(t)
	for _, table := range dynamostore.Schema(r.settings.Tables) {
		for _, item := range now[*table.TableName] {
			key := map[string]types.AttributeValue{}
			for _, k := range table.KeySchema {
				key[*k.AttributeName] = item[*k.AttributeName]
			}
			if _, err := r.clients.DynamoDB.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: table.TableName, Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		for _, item := range backup[*table.TableName] {
			if _, err := r.clients.DynamoDB.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table.TableName, Item: item}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAReceiverTakesEachNewMessageAfterTheTablesWerePutBack(t *testing.T) {
	for name, x := range map[string]struct {
		listed bool
		want   []string
	}{
		"the restore is listed": {true, []string{"d", "e", "b"}},
		// d and e have the identities of b and c
		"the restore is not listed, and two are dropped": {false, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestored(t)
			taken := r.work(t, "a")
			backup := r.copied(t)
			taken = append(taken, r.work(t, "b", "c")...)
			r.putBack(t, backup)
			if x.listed {
				r.settings.Config.Restores = []time.Time{time.Now().UTC()}
			}
			// that b was processed is forgotten
			taken = append(taken, r.work(t, "d", "e", "a", "b")...)
			if d := cmp.Diff(append([]string{"a", "b", "c"}, x.want...), taken); d != "" {
				t.Errorf("taken (-want +got):\n%s", d)
			}
		})
	}
}
