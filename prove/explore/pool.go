package explore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// partition is the group of all messages if the stream has a pool.
const partition = "0"

// ender is the principal of the end of a stream.
const ender = "~end"

// ends reports whether a request ends the stream.
func (r Request) ends() bool { return strings.HasSuffix(r.Do, "/end") }

// placed places a message in the partition of the pool. The message that ends the stream is the one
// that the real code makes.
func (m Message) placed(out record.Message) record.Message {
	out.Group = record.InPartition(0, m.Group)
	if m.End {
		out.Principal, out.ID = ender, "end/"+partition
	}
	if m.End && m.Source != "" {
		out.Source, out.Sequence = out.ID, 1
	}
	return out
}

// sessions returns the sessions of a worker, with which it ends the stream.
func (w *world) sessions(a *host) *session.Sessions {
	return session.New(storePort{a}, session.Config{
		Pools: map[string]session.Pool{stream: {Partitions: 1}}, Now: a.clock, NewID: a.newID, Pause: func(context.Context, int) error { return nil },
		Queues: queuesPort{a}, Enqueue: queuesPort{a}.end, Recalls: true, Numbered: map[string]bool{stream: w.scenario.Stream.Admission == record.BySequence},
	})
}

// end puts the end of the stream on the queue of the partition.
func (q queuesPort) end(_ context.Context, m record.Message) error {
	for name := range q.w.scenario.Messages {
		if end := q.w.scenario.message(name); end.End && end.Identity() == m.Identity() && end.Group == m.Group {
			return q.put(opEnqueue, []string{name}, q.w.append)
		}
	}
	panic("explore: the scenario has no such end: " + m.Identity())
}

// append puts a message on the ingress queue. If the stream has a pool, a further copy of a message
// is left out unless the end is between the two: it is processed right after the first one, and
// clients that repeat their requests would put any number there.
func (w *world) append(p *queuesPart, name string) {
	for _, item := range slices.Backward(p.messages) {
		if !w.scenario.Stream.Pool || w.scenario.Messages[plain(item)].End && plain(item) != name {
			break
		}
		if plain(item) == name {
			return
		}
	}
	p.messages = append(p.messages, name)
}

// commitPool applies a commit of the record of a pool, or of the one that says that its stream is
// closed.
func (w *world) commitPool(v view, c record.Commit) outcome {
	m := v.store.at(v.now)
	err := m.Commit(context.Background(), c)
	v.store = w.storeOf(m)
	switch {
	case errors.Is(err, record.ErrConflict):
		return outcome{view: v, answer: w.answerOf("conflict", "conflict", v.now, nil, record.ErrConflict)}
	case err != nil:
		return outcome{view: v, wrong: err}
	}
	return outcome{view: v, answer: w.done(v.now), wrong: v.store.sound()}
}

// closed reports whether the stream is closed, and ended whether its log is.
func (s *state) closed() bool {
	return slices.ContainsFunc(s.store.contents.Groups, func(g record.Group) bool {
		return g.Key.Stream == record.PoolsStream && strings.HasSuffix(g.Key.Group, "/end")
	})
}

func (s *state) ended() bool {
	return slices.ContainsFunc(s.store.contents.Groups, func(g record.Group) bool { return g.Key.Group == partition && g.Log.Ended })
}

// toldOfEnd returns the answer of a request to a stream that ends: whether its message is before
// the end.
func toldOfEnd(code int, body string) string {
	if code == http.StatusConflict && strings.Contains(body, "#ended") {
		return notAccepted
	}
	return fmt.Sprint(code)
}

// notAccepted is the answer for a message that is not in the log, and never will be.
const notAccepted = "409 ended"

// beforeEnd records whether a client was told that its message is before the end.
func (w *world) beforeEnd(past *pastPart, r Request, told string) (*pastPart, error) {
	switch {
	case r.ends() && told == "202":
		return past, nil
	case !r.ends() && told == "202":
		return w.tell(past, accepted+r.Message, told)
	case !r.ends() && told == notAccepted:
		past, err := w.tell(past, accepted+r.Message, told)
		if err == nil {
			err = w.refusedAll(past.applied, past.told)
		}
		return past, err
	}
	return nil, fmt.Errorf("%s is answered with %s", r.Do, told)
}

// refusedAll returns an error if a message is applied whose client was told that it never is.
func (w *world) refusedAll(applied []string, told map[string]string) error {
	for _, line := range applied {
		if told[accepted+nameIn(line)] == notAccepted {
			return fmt.Errorf("%s is applied, and its client was told that it is behind the end", nameIn(line))
		}
	}
	return nil
}

// committed reports whether a run has made a commit.
func (r *run) committed() bool {
	for step := r; step.parent != nil; step = step.parent {
		if step.parent.call.op == opCommit {
			return true
		}
	}
	return false
}

// endsInTheEnd sweeps the end of a closed stream, and returns an error if its log does not end.
func (w *world) endsInTheEnd(s *state) (*state, error) {
	if !w.scenario.Stream.Pool {
		return s, nil
	}
	s, err := w.alone(s, sweeps, partition)
	for err == nil && len(s.queues.messages) > 0 {
		name := s.queues.messages[0]
		taken := *s
		taken.queues = w.change(s.queues, func(q *queuesPart) { q.messages = without(q.messages, name) })
		s, err = w.alone(&taken, processes, name)
	}
	if err == nil && s.closed() && !s.ended() {
		err = errors.New("the stream is closed, and its log never ends")
	}
	return s, err
}
