package explore

import (
	"errors"
	"time"
)

// errNoAnswer is the error of every failed call: a worker does not learn more.
var errNoAnswer = errors.New("no answer")

// A touch is a set of parts that a call reads or changes.
type touch uint8

const (
	touchStore touch = 1 << iota
	touchSends
	touchQueues
	touchBlobs
	touchPast
)

// A call is one call of a port with its arguments. Equal calls are the same object.
type call struct {
	id      int32
	op      string
	text    string
	touches touch
	reads   bool // it changes nothing: the state is the same before and after
	parts   int  // the number of ways to apply it partly or fully
	firsts  int  // a batch handler may also answer only the first n messages, for n up to firsts
	apply   func(v view) outcome
	some    func(v view, n int) outcome // one of those ways, from 1 on

	memo map[memoKey]outcome
}

// view holds the parts of a state, at a time.
type view struct {
	store  *storePart
	sends  *sendsPart
	queues *queuesPart
	blobs  *blobsPart
	past   *pastPart
	backup *backupPart
	clock  uint8
	now    time.Time
}

// outcome is the result of a call: the parts after it, and the caller's answer.
type outcome struct {
	view   view
	answer *answer
	wrong  error // a violation by the call
}

// answer is the result that a caller receives. Equal answers at the same time are the same object.
type answer struct {
	id    int32
	text  string // for people
	now   time.Time
	value any // shared: copy it before use
	err   error
}

type memoKey struct {
	store, sends, queues, blobs, past int32
	clock                             uint8
}

// do makes a call, or returns its remembered outcome.
func (c *call) do(v view) outcome {
	k := memoKey{clock: v.clock}
	if c.touches&touchStore != 0 {
		k.store = v.store.id
	}
	if c.touches&touchSends != 0 {
		k.sends = v.sends.id
	}
	if c.touches&touchQueues != 0 {
		k.queues = v.queues.id
	}
	if c.touches&touchBlobs != 0 {
		k.blobs = v.blobs.id
	}
	if c.touches&touchPast != 0 {
		k.past = v.past.id
	}
	o, ok := c.memo[k]
	if !ok {
		o = c.apply(v)
		c.memo[k] = o
	}
	return o.onto(v, c.touches)
}

// onto copies the parts that a call touches into a view.
func (o outcome) onto(v view, t touch) outcome {
	after := v
	if t&touchStore != 0 {
		after.store = o.view.store
	}
	if t&touchSends != 0 {
		after.sends = o.view.sends
	}
	if t&touchQueues != 0 {
		after.queues = o.view.queues
	}
	if t&touchBlobs != 0 {
		after.blobs = o.view.blobs
	}
	if t&touchPast != 0 {
		after.past = o.view.past
	}
	o.view = after
	return o
}

// callOf returns the call of an operation and its arguments.
func (w *world) callOf(c call, args ...any) *call {
	return w.calls.one(c.op+keyOf(args...), func(id int32) *call {
		c.id, c.memo = id, map[memoKey]outcome{}
		return &c
	})
}

// answerOf returns the answer of a key at a time. Equal keys must have equal values.
func (w *world) answerOf(key, text string, now time.Time, value any, err error) *answer {
	return w.answers.one(keyOf(key, now), func(id int32) *answer {
		return &answer{id: id, text: text, now: now, value: value, err: err}
	})
}

// done returns the answer of a call without a result.
func (w *world) done(now time.Time) *answer { return w.answerOf("done", "done", now, nil, nil) }

// failed returns the answer of a failed call.
func (w *world) failed(now time.Time) *answer {
	return w.answerOf("no answer", "no answer", now, nil, errNoAnswer)
}
