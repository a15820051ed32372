package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"
)

// Limits of one request of [Client.SendBatch]. The server takes 4 MB; on AWS an event has at most
// 6 MB, in which quotes take two bytes.
const (
	maxBatch      = 1000
	maxBatchBytes = 5 << 19
)

// Result is the outcome of one message of a batch: what [Client.Send] would return for it.
type Result struct {
	// Receipt is that of an acknowledged message. Its Location is empty.
	Receipt Receipt
	Err     error
}

// SendBatch sends messages, many in one request, until each is acknowledged or refused, and returns
// a result for each, in their order. Messages of one group are processed in the order of the slice.
//
// Only messages without an answer are sent again, under their keys, after the wait that the server
// asks for. The errors are those of [Client.Send], one for each message; a message that is refused
// does not delay the others. A request has at most 1,000 messages and 2.5 MB.
//
// [Options.MaxElapsed] limits the time of each request, retries included. When that time or ctx
// ends, messages without an answer get an [*UnacknowledgedError]. So do the messages of later
// requests to the same stream, which are not sent.
//
// Wait has no effect: a batch returns no replies. If the server is of an older version, which has
// no batches, the messages are sent one by one.
func (c *Client) SendBatch(ctx context.Context, messages []Message) []Result {
	results := make([]Result, len(messages))
	parts := map[string]*batch{} // by stream
	for i := range messages {
		b := parts[messages[i].Stream]
		if b == nil {
			b = &batch{client: c, stream: messages[i].Stream, results: results}
			if len(parts) == 0 { // mostly all are of one stream
				b.open = make([]outgoing, 0, len(messages))
			}
		}
		if err := b.add(i, messages[i]); err != nil {
			results[i].Err = err
			continue
		}
		parts[b.stream] = b
	}
	for _, b := range parts {
		_ = b.sendParts(ctx, b.split()) // the errors are in results
	}
	return results
}

// A batch is a part of the messages of a call, all of one stream.
type batch struct {
	client  *Client
	stream  string
	open    []outgoing // without an answer yet
	results []Result   // of the whole call
	tries   int
}

// An outgoing message is one of a batch.
type outgoing struct {
	place   int // in the call
	message Message
	line    []byte
}

// add checks a message and adds it.
func (b *batch) add(place int, m Message) error {
	m.Wait = 0
	if m.Key == "" && m.Source == "" {
		key, err := b.client.options.NewKey()
		if err != nil {
			return err
		}
		m.Key = key
	}
	if err := m.Validate(); err != nil {
		return err
	}
	line, err := m.line()
	if err != nil {
		return err
	}
	b.open = append(b.open, outgoing{place, m, line})
	return nil
}

// split returns parts that fit into one request each.
func (b *batch) split() (parts []*batch) {
	for rest := b.open; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && n < maxBatch && (n == 0 || size+len(rest[n].line) <= maxBatchBytes) {
			n, size = n+1, size+len(rest[n].line)
		}
		parts, rest = append(parts, b.part(rest[:n:n])), rest[n:]
	}
	return parts
}

func (b *batch) part(open []outgoing) *batch {
	return &batch{client: b.client, stream: b.stream, results: b.results, open: open, tries: b.tries}
}

// sendParts sends one part after the other. If it is unknown whether a message was accepted, the
// later parts are not sent, because their messages could overtake it.
func (b *batch) sendParts(ctx context.Context, parts []*batch) (stopped error) {
	for _, part := range parts {
		if stopped != nil {
			part.fail(stopped)
			continue
		}
		stopped = part.send(ctx)
	}
	return stopped
}

// send sends the messages in one request, and repeats those without an answer until none is open.
// It returns an error if no later part may be sent, or if the server would refuse it too.
func (b *batch) send(ctx context.Context) (stopped error) {
	c := b.client
	r := request{
		method: http.MethodPost, url: c.at("streams", b.stream, "batch"), header: http.Header{"Content-Type": {typeLines}},
		content: func() []byte { b.tries++; return b.content() },
	}
	_, err := call(ctx, c, r, func(a answer) (struct{}, *Problem) { return struct{}{}, b.read(a) })
	p, refused := errors.AsType[*Problem](err)
	switch {
	case err == nil:
		return nil
	case refused && p.Status == http.StatusRequestEntityTooLarge && len(b.open) > 1:
		half := len(b.open) / 2 // too large for the server, or for a proxy
		return b.sendParts(ctx, []*batch{b.part(b.open[:half]), b.part(b.open[half:])})
	case refused && (p.Type == UnknownRoute || p.Type == MethodNotAllowed):
		return b.sendEach(ctx)
	}
	b.fail(err)
	if !refused || p.Type == "" || p.Status == http.StatusForbidden || p.Status == http.StatusNotFound {
		return err
	}
	return nil
}

// sendEach sends the messages one by one.
func (b *batch) sendEach(ctx context.Context) error {
	for i, o := range b.open {
		receipt, err := b.client.Send(ctx, o.message)
		b.results[o.place] = Result{receipt, err}
		if p, refused := errors.AsType[*Problem](err); err != nil && (!refused || p.Type == "") {
			b.part(b.open[i+1:]).fail(err)
			return err
		}
	}
	return nil
}

// fail sets the error of each open message.
func (b *batch) fail(err error) {
	for _, o := range b.open {
		own := copied(err)
		if open, ok := errors.AsType[*UnacknowledgedError](own); ok {
			open.Unsent = b.tries == 0 || open.Unsent
		}
		b.results[o.place].Err = fmt.Errorf("send message: %w", keyed(own, o.message.Key))
	}
}

// copied returns an error whose key can be set for one message.
func copied(err error) error {
	if open, ok := errors.AsType[*UnacknowledgedError](err); ok {
		own := *open
		return &own
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		own := *p
		return &own
	}
	return err
}

func (b *batch) content() []byte {
	size := 0
	for i := range b.open {
		size += len(b.open[i].line)
	}
	body := make([]byte, 0, size)
	for i := range b.open {
		body = append(body, b.open[i].line...)
	}
	return body
}

const typeLines = "application/x-ndjson"

// lineResult is one line of an answer.
type lineResult struct {
	Status   int          `json:"status"`
	ID       string       `json:"id"`
	Replayed bool         `json:"replayed"`
	Problem  *lineProblem `json:"problem"`
}

// A lineError wraps the problem of one message of a batch. A problem without it is one of the whole
// request.
type lineError struct{ error }

// Unwrap returns the problem.
func (e lineError) Unwrap() error { return e.error }

type lineProblem struct {
	problemDocument
	RetryAfter int `json:"retry_after"`
}

// read settles the messages that have an answer. If some are still open, it returns the problem of
// the first of them, with the longest wait.
func (b *batch) read(a answer) *Problem {
	lines, ok := b.lines(a)
	if !ok {
		return problemOf(a)
	}
	var first *Problem
	var open []outgoing
	for i, o := range b.open {
		l, to := lines[i], &b.results[o.place]
		if l.Problem == nil {
			to.Receipt = Receipt{ID: l.ID, Stream: b.stream, Group: o.message.group(), Status: "accepted", Replayed: l.Replayed}
			continue
		}
		p := l.Problem.problem(l.Status)
		p.RetryAfter = time.Duration(l.Problem.RetryAfter) * time.Second
		if !p.again() {
			p.Key, p.Ambiguous = o.message.Key, b.tries > 1 || a.repeated
			to.Err = fmt.Errorf("send message: %w", lineError{p})
			continue
		}
		open = append(open, o)
		if first == nil {
			first = p
		}
		first.RetryAfter = max(first.RetryAfter, p.RetryAfter)
	}
	b.open = open
	return first
}

// lines parses an answer; ok is false if it is not that of a once server to these messages.
func (b *batch) lines(a answer) (list []lineResult, ok bool) {
	// A media type that can't be parsed is returned empty.
	if media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); a.status != http.StatusOK || media != typeLines {
		return nil, false
	}
	list = make([]lineResult, 0, len(b.open))
	for text := range bytes.Lines(a.body) {
		if len(list) == len(b.open) {
			return nil, false
		}
		l, ok := readResult(text, b.open[len(list)].message.identity())
		if !ok {
			return nil, false
		}
		accepted := l.Status == http.StatusAccepted && l.ID == b.open[len(list)].message.identity() && l.Problem == nil
		refused := l.Status >= http.StatusBadRequest && l.Problem != nil && l.Problem.name() != ""
		if !accepted && !refused {
			return nil, false
		}
		list = append(list, l)
	}
	return list, len(list) == len(b.open)
}

// readResult parses the line for a message.
func readResult(line []byte, id string) (l lineResult, ok bool) {
	// of almost all messages
	if rest, is := bytes.CutPrefix(line, []byte(`{"status":202,"id":"`)); is && isPlain(id) && len(rest) > len(id) && string(rest[:len(id)]) == id {
		switch string(rest[len(id):]) {
		case "\",\"replayed\":false}\n":
			return lineResult{Status: http.StatusAccepted, ID: id}, true
		case "\",\"replayed\":true}\n":
			return lineResult{Status: http.StatusAccepted, ID: id, Replayed: true}, true
		}
	}
	return l, json.Unmarshal(line, &l) == nil
}
