package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

const pooledConfig = `
streams:
  work: {pool: {window: 20, attempts: 2, poison: dead-letter}, destinations: [receiver]}
destinations:
  receiver: {webhook: %q, secret: "env:E2E_WEBHOOK_SECRET"}
`

// pooledFunctions starts the functions with a pool of eight partitions.
func pooledFunctions(t *testing.T) (*deployment, *receiver, *client.Client) {
	t.Helper()
	r := newReceiver(t, 0)
	d := newDeployment(t, r, "--sweep-every", "1s")
	must(t, os.WriteFile(d.path("once.yaml"), fmt.Appendf(nil, pooledConfig, r.url), 0o600))
	must(t, d.start())
	c, err := client.New(d.url(), client.Options{MinBackoff: 50 * time.Millisecond, MaxBackoff: time.Second})
	must(t, err)
	return d, r, c
}

// A worker is a consumer that keeps the ids of its entries in the state of its session, and sends
// each on.
type worker struct {
	*testing.T
	*client.Session
	state []string
}

func takeSession(t *testing.T, c *client.Client, name, holder string, take client.Take) *worker {
	t.Helper()
	s, err := c.OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: name, Holder: holder, Take: take, Max: 10, Wait: 5 * time.Second, Lease: time.Minute})
	must(t, err)
	w := &worker{T: t, Session: s}
	if state := s.Opened().State; state != nil {
		must(t, json.Unmarshal(state, &w.state))
	}
	t.Cleanup(s.Close)
	return w
}

// commit commits the entries of a batch, as far as a number, with state and effects in one write.
func (w *worker) commit(ctx context.Context, entries []client.Entry, to uint64) error {
	var o client.CommitOptions
	state := w.state
	for i := range entries {
		if entries[i].Number <= to {
			state = append(state, entries[i].ID)
			body, err := json.Marshal(entries[i].ID)
			must(w.T, err)
			o.Effects = append(o.Effects, client.Effect{To: "receiver", Body: body})
		}
	}
	var err error
	o.State, err = json.Marshal(state)
	must(w.T, err)
	if err := w.Commit(ctx, to, o); err != nil {
		return err
	}
	w.state = state
	return nil
}

func TestSessionsOfTheFunctionsDealCommitFailRetireAndEnd(t *testing.T) {
	d, r, c := pooledFunctions(t)
	const messages, groups = 60, 20
	var want []string
	for i := range messages {
		id := fmt.Sprintf("m%02d", i)
		want = append(want, id)
		for range 2 {
			_, err := c.Send(t.Context(), client.Message{Stream: "work", Key: id, Group: fmt.Sprint("g", i%groups), ContentType: "application/json", Body: []byte("{}")})
			must(t, err)
		}
	}

	// A consumer commits a part, and another one takes over.
	first := takeSession(t, c, "ann", "host-1", client.TakeFree)
	batch, err := first.Next(t.Context())
	must(t, err)
	must(t, first.commit(t.Context(), batch.Entries, batch.To))
	batch, err = first.Next(t.Context())
	must(t, err)
	second := takeSession(t, c, "ann", "host-2", client.TakeNow)
	if err := first.commit(t.Context(), batch.Entries, batch.To); !errors.Is(err, client.Fenced) {
		t.Errorf("the consumer that was replaced: %v", err)
	}
	if !slices.Equal(second.state, first.state) || second.Cursor() != first.Cursor() {
		t.Errorf("the next one begins at %d with %v, not at %d with %v", second.Cursor(), second.state, first.Cursor(), first.state)
	}

	// Its entries go to others when it is retired. One of them becomes a dead letter.
	cursor := second.Cursor()
	must(t, second.Retire(t.Context(), &cursor))
	must(t, c.End(t.Context(), "work", "the end"))
	other := takeSession(t, c, "bob", "host-3", client.TakeFree)
	bad := ""
	for {
		batch, err := other.Next(t.Context())
		if errors.Is(err, client.ErrEnd) {
			break
		}
		must(t, err)
		if bad == "" {
			bad = batch.Entries[0].ID
			other.fails(batch.Entries[0].Number)
			batch.Entries = batch.Entries[1:]
		}
		must(t, other.commit(t.Context(), batch.Entries, batch.To))
	}
	if _, err := c.Send(t.Context(), client.Message{Stream: "work", Key: "late", Body: []byte("{}")}); !errors.Is(err, client.Ended) {
		t.Errorf("a message after the end: %v", err)
	}

	got := append(append([]string{bad}, second.state...), other.state...)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("processed %v", got)
	}
	d.wantSent(t, r, want, bad)
	d.wantListed(t)
}

// fails reports two failed tries of an entry, which make it a dead letter.
func (w *worker) fails(number uint64) {
	w.Helper()
	for try := range 2 {
		out, err := w.Fail(w.T.Context(), number, "no such item")
		if must(w.T, err); out.Dead != (try == 1) || out.Stop {
			w.Errorf("try %d: %+v", try+1, out)
		}
	}
}

// wantListed checks the list of sessions at the end of the stream.
func (d *deployment) wantListed(t *testing.T) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url()+"/v1/streams/work/sessions", http.NoBody)
	must(t, err)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	var list struct {
		Sessions []struct {
			Name         string
			Cursor, Last uint64
			Ended        bool
		}
		Pool struct {
			Partitions []struct{ Ended bool }
			Waiting    uint64
			Ended      bool
		}
	}
	must(t, json.NewDecoder(answer.Body).Decode(&list))
	if len(list.Sessions) != 1 || list.Sessions[0].Name != "bob" || !list.Sessions[0].Ended || list.Sessions[0].Cursor != list.Sessions[0].Last+1 && list.Sessions[0].Cursor != list.Sessions[0].Last {
		t.Errorf("the sessions are %+v", list.Sessions)
	}
	if len(list.Pool.Partitions) != 8 || list.Pool.Waiting > 0 || !list.Pool.Ended {
		t.Errorf("the pool is %+v", list.Pool)
	}
}

// wantSent checks that each message but a dead letter was sent once, and one end of the stream.
func (d *deployment) wantSent(t *testing.T, r *receiver, want []string, dead string) {
	t.Helper()
	want = append(slices.DeleteFunc(slices.Clone(want), func(id string) bool { return id == dead }), `{"stream":"work"}`)
	var sent []string
	await(t, "the effects", func() (bool, error) {
		posts, problems := r.seen()
		(&verdict{problems}).report(t)
		bodies := map[string]string{} // by identity: a copy has that of the first
		for _, p := range posts {
			bodies[p.webhookID] = string(p.body)
		}
		sent = nil
		for _, body := range bodies {
			var id string
			if json.Unmarshal([]byte(body), &id) != nil {
				id = body
			}
			sent = append(sent, id)
		}
		return len(sent) >= len(want), nil
	})
	slices.Sort(want)
	if slices.Sort(sent); !slices.Equal(sent, want) {
		t.Errorf("sent %v", sent)
	}
	letters, err := queueDepth(t.Context(), d.sqs, d.queue(t, "-ingress-dead"))
	must(t, err)
	if len(letters) != 1 {
		t.Errorf("dead letters: %v", letters)
	}
}
