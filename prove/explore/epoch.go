package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// fenced is the suffix of a request with a message of an issued epoch, if a newer epoch of its
// source was issued before the request began.
const fenced = " fenced"

// asksEpoch reports whether a request asks for an epoch.
func (r Request) asksEpoch() bool { return strings.Contains(r.Do, "/epochs/") }

// newest returns the newest epoch that was issued for the source of a message; 0 if none was.
func (s *state) newest(m record.Message) uint64 {
	source := record.NewSourceEpoch(&m)
	key := source.Key()
	for i := range s.store.contents.Groups {
		if g := &s.store.contents.Groups[i]; g.Key == key && source.Read(g) == nil {
			return source.Epoch
		}
	}
	return 0
}

// fences reports whether a newer epoch was issued than that of a request's message.
func (w *world) fences(s *state, r Request) bool {
	m := w.scenario.message(r.Message)
	return !r.asksEpoch() && record.EpochIssued(m.Epoch) && s.newest(m) > m.Epoch
}

// toldOfEpoch returns the answer to a client that asked for an epoch, or that sent a message with
// an issued epoch. It is empty if the client repeats its request: a client that does not wait for
// an epoch sends its message again until it was issued.
func (w *world) toldOfEpoch(r Request, code int, body []byte) string {
	switch {
	case code == http.StatusGone && record.EpochIssued(w.scenario.message(r.Message).Epoch):
		return ""
	case code == http.StatusOK && r.asksEpoch():
		var issued struct{ Epoch uint64 }
		if err := json.Unmarshal(body, &issued); err != nil {
			return err.Error()
		}
		return strconv.FormatUint(issued.Epoch, 10)
	}
	return strconv.Itoa(code)
}

// issued records the epoch that a client got. It returns an error if another client got the same
// one, or if it was not stored.
func (w *world) issued(s *state, past *pastPart, item, told string) (*pastPart, error) {
	epoch, err := strconv.ParseUint(told, 10, 64)
	who := "the caller with epoch " + told
	before, twice := past.told[who]
	switch {
	case err != nil || !record.EpochIssued(epoch):
		return nil, fmt.Errorf("%s is answered with %s", item, told)
	case twice:
		return nil, fmt.Errorf("epoch %s is issued twice: to %s and to %s", told, before, item)
	case s.newest(w.scenario.message(w.scenario.Requests[item].Message)) < epoch:
		return nil, fmt.Errorf("epoch %s is issued to %s, and not stored", told, item)
	}
	return w.tell(past, who, item)
}

// commitEpoch applies a commit of the record of a source.
func (w *world) commitEpoch(v view, c record.Commit) outcome {
	var was, is record.SourceEpoch
	m := v.store.at(v.now)
	before, _, err := m.Load(context.Background(), []record.GroupKey{c.Next.Key}, nil)
	if err == nil {
		err = m.Commit(context.Background(), c)
	}
	switch {
	case errors.Is(err, record.ErrConflict):
		v.store = w.storeOf(m) // unchanged, if the store is correct
		return outcome{view: v, answer: w.answerOf("conflict", "conflict", v.now, nil, record.ErrConflict)}
	case err != nil:
		return outcome{view: v, wrong: err}
	}
	if err := errors.Join(was.Read(&before[0]), is.Read(&c.Next)); err != nil || is.Epoch < was.Epoch {
		return outcome{view: v, wrong: errors.Join(err, fmt.Errorf("epoch %d is stored after %d", is.Epoch, was.Epoch))}
	}
	v.store = w.storeOf(m)
	return outcome{view: v, answer: w.done(v.now)}
}
