package durable

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// maxEntry is the size of the parts of a large append, in bytes.
const maxEntry = 200 << 10

// An operation is a request that writes. Its message has its id; the handler of Wrap runs it.
type operation struct {
	id       string
	create   bool
	touch    bool // a read: only the time of use changes
	typ      string
	ttl      int64
	expires  *time.Time
	expiry   string
	closes   bool
	body     []byte
	seq      string
	producer string
	number   producer

	principal string // scopes the producer
	now       time.Time
	read      time.Time // the last read of the stream

	// The results of the last run, which is the one that was committed if any was.
	last    uint64 // the number of the last entry
	refused *refusal
	stale   bool // the stream has expired, and is to be dropped first
}

// A refusal is an answer to a request that changes nothing. It may be a success: of a repetition.
type refusal struct {
	status int
	header map[string]string
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, text string, header ...string) *refusal {
	r := &refusal{status: status, text: text, header: map[string]string{}}
	for i := 0; i+1 < len(header); i += 2 {
		r.header[header[i]] = header[i+1]
	}
	return r
}

type operationKey struct{}

// Wrap returns a handler that runs the requests of the protocol, and leaves other messages to
// another handler, which also gets each appended value.
func Wrap(next record.Handler) record.Handler {
	return func(ctx context.Context, a *record.Attempt, m record.Message) error {
		o, _ := ctx.Value(operationKey{}).(*operation)
		if o == nil || o.id != m.ID {
			return next(ctx, a, m)
		}
		o.refused, o.stale = nil, false
		a.OmitMessage()
		items, err := o.run(a)
		if err != nil {
			if no, ok := errors.AsType[*refusal](err); ok {
				o.refused = no
			}
			return &record.RejectError{Detail: "refused", Err: err, Unkept: true}
		}
		for _, item := range items {
			a.Append(o.entry(item))
			value := m
			value.ContentType, value.Body, value.Headers = o.typ, item, nil
			if err := next(ctx, a, value); err != nil {
				return err
			}
		}
		o.last = a.Log.Last + uint64(len(items))
		return nil
	}
}

// run decides on the request, sets the state, and returns the bodies of the entries.
func (o *operation) run(a *record.Attempt) ([][]byte, error) {
	st, exists, err := parseState(a.State, a.Log)
	if err != nil {
		return nil, err
	}
	switch {
	case exists && st.expired(o.read, o.now) && !o.touch:
		o.stale = true
		return nil, errors.New("expired")
	case o.create && exists:
		return nil, o.existing(&st, a.Log)
	case o.create:
		st = state{Type: o.typ, TTL: o.ttl, Expires: o.expires, ExpiresAt: o.expiry, Used: o.now}
	case !exists:
		return nil, refuse(http.StatusNotFound, "There is no such stream.")
	}
	var items [][]byte
	if !o.touch {
		if err := o.check(&st); err != nil {
			return nil, err
		}
		if o.typ = st.Type; len(o.body) > 0 {
			if items, err = o.items(&st); err != nil {
				return nil, err
			}
			if err := o.fits(items); err != nil {
				return nil, err
			}
		}
	}
	st.Used = o.now
	a.State = st.encode()
	return items, nil
}

// existing returns the answer to the creation of a stream that is there.
func (o *operation) existing(st *state, log record.Log) error {
	same := sameType(o.typ, st.Type) && o.ttl == st.TTL && (o.expires == nil) == (st.Expires == nil) && (o.expires == nil || o.expires.Equal(*st.Expires))
	if !same || o.closes != log.Ended {
		return refuse(http.StatusConflict, "The stream exists with another configuration.")
	}
	return refuse(http.StatusOK, "The stream exists.")
}

// check compares the numbers of a request with those of the stream, and takes them over.
func (o *operation) check(st *state) error {
	if !o.create && len(o.body) > 0 && !sameType(o.typ, st.Type) {
		return refuse(http.StatusConflict, "The stream has the content type "+st.Type+".")
	}
	if o.producer != "" {
		if err := o.checkProducer(st); err != nil {
			return err
		}
	}
	if o.seq != "" {
		if o.seq <= st.Seq {
			return refuse(http.StatusConflict, "Stream-Seq is not after the last one.")
		}
		st.Seq = o.seq
	}
	return nil
}

// producerKey returns the name of the producer in the state of the stream.
func (o *operation) producerKey() string {
	if o.principal == "" {
		return o.producer
	}
	return o.principal + "\x1f" + o.producer // a principal has no control characters
}

func (o *operation) checkProducer(st *state) error {
	last, known := st.Producers[o.producerKey()]
	epoch, number := strconv.FormatUint(last.Epoch, 10), o.number
	switch {
	case known && number.Epoch < last.Epoch:
		return refuse(http.StatusForbidden, "A newer epoch of the producer has written.", "Producer-Epoch", epoch)
	case known && number.Epoch == last.Epoch && number.Seq <= last.Seq:
		return refuse(http.StatusNoContent, "", "Producer-Epoch", epoch, "Producer-Seq", strconv.FormatUint(last.Seq, 10))
	case known && number.Epoch > last.Epoch && number.Seq != 0:
		return refuse(http.StatusBadRequest, "A new epoch begins with Producer-Seq 0.")
	}
	expected := uint64(0)
	if known && number.Epoch == last.Epoch {
		expected = last.Seq + 1
	}
	if number.Seq != expected {
		return refuse(http.StatusConflict, "A number of the producer is missing.",
			"Producer-Expected-Seq", strconv.FormatUint(expected, 10), "Producer-Received-Seq", strconv.FormatUint(number.Seq, 10))
	}
	if !known && len(st.Producers) >= maxProducers {
		return refuse(http.StatusTooManyRequests, "The stream has as many producers as it can remember.")
	}
	if st.Producers == nil {
		st.Producers = map[string]producer{}
	}
	st.Producers[o.producerKey()] = number
	return nil
}

// items returns the bodies of the entries of an append.
func (o *operation) items(st *state) ([][]byte, error) {
	if !isJSON(st.Type) {
		var parts [][]byte
		for body := o.body; len(body) > 0; {
			n := min(len(body), maxEntry)
			parts, body = append(parts, body[:n]), body[n:]
		}
		return parts, nil
	}
	if !json.Valid(o.body) {
		return nil, refuse(http.StatusBadRequest, "The body is not valid JSON.")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, o.body); err != nil {
		return nil, err
	}
	if compact.Bytes()[0] != '[' {
		return [][]byte{compact.Bytes()}, nil
	}
	var values []json.RawMessage
	if err := json.Unmarshal(compact.Bytes(), &values); err != nil {
		return nil, err
	}
	if len(values) == 0 && !o.create {
		return nil, refuse(http.StatusBadRequest, "An empty array appends nothing.")
	}
	items := make([][]byte, len(values))
	for i := range values {
		items[i] = values[i]
	}
	return items, nil
}

func (o *operation) entry(body []byte) record.Entry {
	return record.Entry{ContentType: o.typ, Body: body}
}

// fits returns an error for entries that one commit can't append.
func (o *operation) fits(items [][]byte) error {
	size := 0
	for _, item := range items {
		e := o.entry(item)
		size += e.Size()
	}
	if size > dedup.MaxAppend {
		return refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf(
			"The %d values of the array are too many: each takes some 130 bytes beside its content, and an append may take %d. Append them in parts.", len(items), dedup.MaxAppend))
	}
	return nil
}

// write commits an operation. A *refusal is its answer if it changed nothing.
func (s *server) write(ctx context.Context, key record.GroupKey, o *operation) error {
	for {
		o.id, o.now, o.read = "durable-"+rand.Text(), s.Now(), s.uses.last(key)
		m := record.Message{
			Principal: o.principal, Stream: key.Stream, Group: key.Group, ID: o.id, Source: o.producer, Epoch: o.number.Epoch, ContentType: o.typ,
			Body: []byte("durable"), End: o.closes, Accepted: o.now,
		}
		if o.producer != "" {
			m.Sequence = o.number.Seq + 1
		}
		out := s.Engine.Call(context.WithValue(context.WithoutCancel(ctx), operationKey{}, o), m)
		switch {
		case out.Kind == record.Processed || out.Kind == record.Duplicate:
			return nil
		case o.stale:
			if err := s.Engine.DropGroup(ctx, key); err != nil {
				return err
			}
			continue
		case out.Kind == record.Rejected && o.refused != nil:
			return o.refused
		case out.Kind == record.Rejected && out.Reason == record.ReasonEnded:
			return s.ended(ctx, key, o)
		case out.Kind == record.Rejected:
			return refuse(http.StatusBadRequest, out.Detail)
		}
		return errors.Join(errors.New("the stream could not be written"), out.Err)
	}
}

// ended returns the answer to a request that would write to a closed stream.
func (s *server) ended(ctx context.Context, key record.GroupKey, o *operation) error {
	g, st, err := s.load(ctx, key)
	if err != nil {
		return err
	}
	if g == nil { // it has expired
		if err := s.Engine.DropGroup(ctx, key); err != nil || !o.create {
			return errors.Join(err, refuse(http.StatusNotFound, "There is no such stream."))
		}
		return s.write(ctx, key, o)
	}
	o.last = tail(g.Log)
	if o.create {
		return o.existing(st, g.Log)
	}
	last, known := st.Producers[o.producerKey()]
	switch {
	case known && o.number.Epoch < last.Epoch:
		return o.checkProducer(st)
	case known && last == o.number:
		return refuse(http.StatusNoContent, "", "Producer-Epoch", strconv.FormatUint(last.Epoch, 10), "Producer-Seq", strconv.FormatUint(last.Seq, 10))
	case o.closes && len(o.body) == 0:
		return refuse(http.StatusNoContent, "")
	}
	return refuse(http.StatusConflict, "The stream is closed.", "Stream-Closed", "true")
}
