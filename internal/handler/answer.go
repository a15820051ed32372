package handler

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/effectively-once/once/internal/record"
)

// An Answer is the result of a handler for one message or several. It is committed as a whole or
// not at all: its state is that after its last message.
type Answer struct {
	// SetState says that State replaces the state of the group. An empty State clears it.
	SetState bool
	State    []byte
	// Results are those of the first messages of the request, in its order; at least one.
	Results []Result
}

// A Result is the result for one message.
type Result struct {
	ID string
	// Rejected says that the handler refuses the message for good, for the reason in Reject. Then
	// there is nothing else.
	Rejected bool
	Reject   string
	Reply    *record.Reply
	Effects  []Effect
	Append   []Content
}

// DecodeAnswer reads the answer to the request of an attempt, for messages with these ids. An answer
// that names another attempt is that to another request, and an error. The error is an
// [*InvalidError].
func DecodeAnswer(data []byte, attempt string, ids []string) (*Answer, error) {
	if len(data) > MaxAnswer {
		return nil, wrong("", "has more than %d bytes", MaxAnswer)
	}
	v, err := whole(data)
	if err != nil {
		return nil, err
	}
	o, err := v.object("state", "messages", "attempt")
	if err != nil {
		return nil, err
	}
	if o.has("attempt") {
		if text, err := o.text("attempt"); err != nil || text != attempt {
			return nil, wrong("attempt", "must be %.100q, as in the request, or left out", attempt)
		}
	}
	a := &Answer{SetState: o.has("state")}
	if a.SetState {
		a.State = decodeState(o.members["state"])
		if len(a.State) > record.MaxBatchState {
			return nil, wrong("state", "of %d bytes is larger than %d: keep less in it, or use smaller groups", len(a.State), record.MaxBatchState)
		}
	}
	items, err := o.list("messages")
	switch {
	case err != nil:
		return nil, err
	case !o.has("messages"):
		return nil, wrong("", "must have messages, with one result for each message")
	case len(items) == 0:
		return nil, wrong("messages", "must have at least one result")
	case len(items) > len(ids):
		return nil, wrong("messages", "has %d results, and the request %d messages", len(items), len(ids))
	}
	a.Results = make([]Result, len(items))
	for i, v := range items {
		if a.Results[i], err = v.result(ids[i]); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// CheckAnswer returns why an answer is refused for an encoded request, or nil. A request without
// messages has no answer to check.
func CheckAnswer(request, answer []byte) error {
	var r struct {
		Attempt  string
		Messages []struct{ ID string }
	}
	if err := json.Unmarshal(request, &r); err != nil || len(r.Messages) == 0 {
		return nil //nolint:nilerr // a request that is none
	}
	ids := make([]string, len(r.Messages))
	for i := range r.Messages {
		ids[i] = r.Messages[i].ID
	}
	_, err := DecodeAnswer(answer, r.Attempt, ids)
	return err
}

// decodeState returns the bytes to store for a state: none for null.
func decodeState(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return compact(raw)
}

// result reads the result for the message with this id.
func (v value) result(id string) (r Result, err error) {
	o, err := v.object("id", "reject", "reply", "effects", "append")
	if err != nil {
		return r, err
	}
	if r.ID, err = o.text("id"); err != nil {
		return r, err
	}
	if r.ID != id {
		return r, wrong(o.value("id").path, "must be %.100q, as in the request: results are in the order of the messages", id)
	}
	if r.Rejected = o.has("reject"); r.Rejected {
		if r.Reject, err = o.text("reject"); err != nil {
			return r, err
		}
		if r.Reject == "" || len(o.members) > 2 {
			return r, wrong(v.path, "with reject must say why, and have no reply, effects or append")
		}
		return r, nil
	}
	if r.Effects, err = o.effects(); err != nil {
		return r, err
	}
	if r.Append, err = o.entries(); err != nil {
		return r, err
	}
	if o.has("reply") {
		r.Reply, err = o.value("reply").reply()
	}
	return r, err
}

// entries reads the member "append".
func (o object) entries() ([]Content, error) {
	items, err := o.list("append")
	if err != nil || len(items) == 0 {
		return nil, err
	}
	out := make([]Content, len(items))
	for i, v := range items {
		entry, err := v.object(contentMembers()...)
		if err != nil {
			return nil, err
		}
		if out[i], err = entry.content(record.SmallBody); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reply reads the answer to the callers that wait for a message.
func (v value) reply() (*record.Reply, error) {
	o, err := v.object(slices.Concat([]string{"status"}, contentMembers())...)
	if err != nil {
		return nil, err
	}
	status, err := strconv.Atoi(string(o.members["status"]))
	if err != nil || status < 200 || status > 599 {
		return nil, wrong(o.value("status").path, "must be a number from 200 to 599")
	}
	c, err := o.content(record.MaxReply)
	if err != nil {
		return nil, err
	}
	reply := &record.Reply{Status: status, Header: map[string][]string{}, Body: c.Body}
	for name, text := range c.Headers {
		reply.Header[http.CanonicalHeaderKey(name)] = []string{text}
	}
	if c.ContentType != "" {
		reply.Header["Content-Type"] = []string{c.ContentType}
	}
	return reply, nil
}
