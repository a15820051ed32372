package admin

import (
	"cmp"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

// Stats counts the work in a system.
type Stats struct {
	Streams []StreamStats `json:"streams"`
	// Decorators counts the tokens of decorators and middleware, which belong to no stream. It is
	// nil if there are none.
	Decorators *TokenStats  `json:"decorators,omitempty"`
	Queues     []QueueStats `json:"queues"`
	// Pending, Held, Issued and Leased are the sums over the streams and the decorators.
	Pending int `json:"pending"`
	Held    int `json:"held"`
	Issued  int `json:"issued"`
	Leased  int `json:"leased"`
	// Queued counts messages on all queues but the dead-letter queues, including those in flight.
	// Delayed counts messages that are too far ahead of their predecessors. Delayed triggers, which
	// only check for leftovers, are not counted here, although the trigger queue's own figures
	// include them.
	Queued  int `json:"queued"`
	Delayed int `json:"delayed"`
	// NotDue counts delayed messages that are kept until they are due, and NextDue is when the
	// earliest of them is; it is nil if there are none. On AWS they are not counted.
	NotDue  int        `json:"not_due"`
	NextDue *time.Time `json:"next_due,omitempty"`
	// DeadLetters counts messages on the dead-letter queues.
	DeadLetters int `json:"dead_letters"`
	// Idle is true if no message is pending, held, leased, queued or delayed. Issued tokens,
	// delayed triggers, messages that are not due and dead letters do not count.
	Idle bool `json:"idle"`
}

// StreamStats counts the work in one stream.
type StreamStats struct {
	Stream string `json:"stream"`
	Groups int    `json:"groups"`
	// Pending counts committed messages that are not yet published and cleared.
	Pending int `json:"pending"`
	Held    int `json:"held"`
	TokenStats
}

// TokenStats counts tokens by their state. A message that is done by an entry of its group's record
// counts as one with a done token.
type TokenStats struct {
	Issued int `json:"issued"`
	Leased int `json:"leased"`
	Done   int `json:"done"`
}

// QueueStats counts the messages of one queue.
type QueueStats struct {
	Queue string `json:"queue"`
	// Visible messages can be received now, InFlight ones are being processed, Delayed ones wait
	// for their time.
	Visible    int  `json:"visible"`
	InFlight   int  `json:"in_flight"`
	Delayed    int  `json:"delayed"`
	DeadLetter bool `json:"dead_letter,omitempty"`
	// Most is how many dead letters the queue keeps. Expiring is how many it will drop within a day
	// because of their age, counted up to 10,000. Both are set on one machine only.
	Most     int `json:"most,omitempty"`
	Expiring int `json:"expiring,omitempty"`
}

// NearlyFull reports whether the queue has 90 % of the dead letters that it keeps.
func (q QueueStats) NearlyFull() bool { return q.Most > 0 && q.Depth() >= q.Most-q.Most/10 }

// Depth returns the number of all messages of the queue.
func (q QueueStats) Depth() int { return q.Visible + q.InFlight + q.Delayed }

// precaution is the queue whose delayed messages are no work: triggers for commits of processes
// that may have died, or that may still commit.
const precaution = "publish"

// Total sets the sums, and Idle, from Streams and Queues.
func (s Stats) Total() Stats {
	s.Pending, s.Held, s.Issued, s.Leased, s.Queued, s.Delayed, s.DeadLetters = 0, 0, 0, 0, 0, 0, 0
	for _, x := range s.Streams {
		s.Pending += x.Pending
		s.Held += x.Held
		s.Issued += x.Issued
		s.Leased += x.Leased
	}
	if s.Decorators != nil {
		s.Issued += s.Decorators.Issued
		s.Leased += s.Decorators.Leased
	}
	for _, q := range s.Queues {
		if q.DeadLetter {
			s.DeadLetters += q.Depth()
			continue
		}
		s.Queued += q.Visible + q.InFlight
		if q.Queue != precaution {
			s.Delayed += q.Delayed
		}
	}
	s.Idle = s.Pending+s.Held+s.Leased+s.Queued+s.Delayed == 0
	return s
}

// GroupInfo is one group record.
type GroupInfo struct {
	Stream  string `json:"stream"`
	Group   string `json:"group"`
	Version uint64 `json:"version"`
	// LastNumber is the last number assigned to an effect.
	LastNumber uint64       `json:"last_number"`
	Pending    []Pending    `json:"pending"`
	Held       int          `json:"held"`
	Sources    []SourceInfo `json:"sources"`
	// State is the handler's state if it is JSON, otherwise StateBase64.
	State       json.RawMessage `json:"state,omitempty"`
	StateBase64 []byte          `json:"state_base64,omitempty"`
	Expires     *time.Time      `json:"expires,omitempty"`
	// Timers are those that are set, the one that is due first at the beginning.
	Timers []TimerInfo `json:"timers,omitempty"`
	// Waiting says for what the group waits. It is set for one group, not in a list of groups.
	Waiting []Wait `json:"waiting,omitempty"`
}

// TimerInfo is one timer of a group.
type TimerInfo struct {
	Name string    `json:"name"`
	Due  time.Time `json:"due"`
}

// SetState stores a handler's state in State or StateBase64.
func (g *GroupInfo) SetState(state []byte) {
	g.State, g.StateBase64 = nil, nil
	if len(state) > 0 && utf8.Valid(state) && json.Valid(state) {
		g.State = state
		return
	}
	g.StateBase64 = state
}

// Pending is one committed message that is not yet published and cleared.
type Pending struct {
	Number  uint64 `json:"number"`
	ID      string `json:"id"`
	Attempt string `json:"attempt"`
	// Effects is the number of its messages and blobs, Sent the number of deliveries that are known
	// to have been made.
	Effects int `json:"effects"`
	Sent    int `json:"sent"`
	// Sends lists the deliveries. It is set for one group, not in a list of groups.
	Sends []Send `json:"sends,omitempty"`
}

// Send is the delivery of one effect to one destination.
type Send struct {
	// ID is the identity under which the destination gets the effect.
	ID     string `json:"id"`
	Number uint64 `json:"number"`
	To     string `json:"to"`
	// Sent is true if the delivery is known to have been made.
	Sent bool `json:"sent"`
}

// Overview is the unfinished work that a running system knows without reading its whole store.
type Overview struct {
	// Groups are those that wait for something, with Waiting; those with the most failed tries come
	// first.
	Groups []GroupInfo `json:"groups"`
	// More is how many further groups may wait.
	More   int          `json:"more,omitempty"`
	Queues []QueueStats `json:"queues"`
}

// SourceInfo describes one numbered sender in a group.
type SourceInfo struct {
	Principal string  `json:"principal,omitempty"`
	Source    string  `json:"source"`
	Epoch     uint64  `json:"epoch"`
	Next      uint64  `json:"next"`
	Held      []Range `json:"held"`
	Skipped   []Range `json:"skipped"`
	// GapSince is when the number Next was first missed.
	GapSince *time.Time `json:"gap_since,omitempty"`
}

// Range is the numbers from First to Last, both included; in JSON a pair.
type Range struct{ First, Last uint64 }

// MarshalJSON returns [first, last].
func (r Range) MarshalJSON() ([]byte, error) { return json.Marshal([2]uint64{r.First, r.Last}) }

// UnmarshalJSON parses [first, last].
func (r *Range) UnmarshalJSON(data []byte) error {
	var pair [2]uint64
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	r.First, r.Last = pair[0], pair[1]
	return nil
}

// MessageInfo describes one message.
type MessageInfo struct {
	Stream string `json:"stream"`
	// ID is empty if only the message's hash is known.
	ID string `json:"id"`
	// Hash is the message's name in the log, see [record.Message.Hash].
	Hash  string `json:"hash,omitempty"`
	Group string `json:"group,omitempty"`
	// Status is accepted, held, committed, done, rejected or deleted.
	Status string `json:"status"`
	// Reason is why the message was rejected, or is a dead letter.
	Reason string `json:"reason,omitempty"`
	// Detail explains the reason.
	Detail  string     `json:"detail,omitempty"`
	Reply   *ReplyInfo `json:"reply,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// Waiting says for what the message waits. It is empty if it is done or refused, or if nothing
	// is known to keep it.
	Waiting []Wait `json:"waiting,omitempty"`
}

// ReplyInfo is the reply that is stored with a message.
type ReplyInfo struct {
	Status int                 `json:"status"`
	Header map[string][]string `json:"header,omitempty"`
	Body
}

// Body is a body in one of three fields, by its content.
type Body struct {
	// JSON holds JSON, Text any other text, Base64 all other bytes.
	JSON   json.RawMessage `json:"body,omitempty"`
	Text   string          `json:"body_text,omitempty"`
	Base64 []byte          `json:"body_base64,omitempty"`
}

// SetBody stores a body in the field for its content.
func (b *Body) SetBody(body []byte) {
	*b = Body{}
	switch {
	case len(body) == 0:
	case !utf8.Valid(body):
		b.Base64 = body
	case json.Valid(body):
		b.JSON = body
	default:
		b.Text = string(body)
	}
}

// SetBody stores the first most bytes of a body, or all of it if most is negative.
func (c *Content) SetBody(body []byte, most int) {
	c.Bytes = len(body)
	c.Truncated = most >= 0 && len(body) > most
	if c.Truncated {
		for utf8.Valid(body) && !utf8.RuneStart(body[most]) {
			most--
		}
		body = body[:most]
	}
	c.Body.SetBody(body)
}

// SweepInfo counts the results of a sweep.
type SweepInfo struct {
	// Groups is the number of inspected groups; Finished of those with leftovers that are finished
	// now; Failed of those that could not be finished.
	Groups   int `json:"groups"`
	Finished int `json:"finished"`
	Failed   int `json:"failed"`
	// Waiting is the number of inspected groups that still hold messages, because a number or a
	// parent is missing. They are neither finished nor failed.
	Waiting int `json:"waiting"`
	// Expired is the number of deleted expired records, Blobs of deleted orphaned blobs.
	Expired int `json:"expired"`
	Blobs   int `json:"blobs"`
}

// DeadLetter is a message or an effect that was refused.
type DeadLetter struct {
	Queue  string `json:"queue"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	Stream string `json:"stream"`
	ID     string `json:"id,omitempty"`
	// Key is the id of the message's first entry, if the letter is that of an entry of a pool. ID
	// is then the one under which the entry is redriven.
	Key string `json:"key,omitempty"`
	// Session and Number name the entry, if a session made the letter and is known.
	Session string `json:"session,omitempty"`
	Number  uint64 `json:"number,omitempty"`
	Group   string `json:"group,omitempty"`
	Source  string `json:"source,omitempty"`
	// Epoch and Sequence are set if Source is.
	Epoch    uint64 `json:"epoch,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	// Destination is set if the destination refused an effect.
	Destination string `json:"destination,omitempty"`
	// Sent is when it was refused; the last time if it was refused several times.
	Sent time.Time `json:"sent"`
	// Count is how many refusals under one identity the letter stands for, and First is when the
	// first one was. They are not set for a single one.
	Count int        `json:"count,omitempty"`
	First *time.Time `json:"first,omitempty"`
	// MessageID is the queue's id of the dead letter. It selects a dead letter that has no other
	// id.
	MessageID string `json:"message_id,omitempty"`
	// Copies are the queue's ids of other letters of the identity, which SQS can't merge.
	Copies []string `json:"copies,omitempty"`
	// Content is returned if [DeadLettersOptions] ask for it.
	Content *Content `json:"content,omitempty"`
}

// Name returns the id, or source/epoch/sequence of a numbered message without one.
func (d *DeadLetter) Name() string {
	if d.ID == "" && d.Source != "" {
		m := record.Message{Source: d.Source, Epoch: d.Epoch, Sequence: d.Sequence}
		return m.Number()
	}
	return d.ID
}

// Selector returns the id that selects the letter: that of its queue, or the name of its message if
// there are copies, so that it selects these as well.
func (d *DeadLetter) Selector() string {
	if name := cmp.Or(d.Key, d.Name()); len(d.Copies) > 0 && name != "" {
		return name
	}
	return d.MessageID
}

// SelectorStream returns the stream that the selector needs, or "".
func (d *DeadLetter) SelectorStream() string {
	if d.Selector() != d.MessageID {
		return d.Stream
	}
	return ""
}

// Content is the headers and the body of a dead letter's message or effect.
type Content struct {
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	// Bytes is the size of the whole body. Truncated is true if the fields below hold only its
	// beginning.
	Bytes     int  `json:"bytes"`
	Truncated bool `json:"truncated,omitempty"`
	Body
}

// RedriveInfo counts the results of a redrive.
type RedriveInfo struct {
	// Redriven dead letters were put back; Left did not match or were over the limit; Answered
	// stay because their callers were told that the messages are refused; Failed could not be put
	// back and stay.
	Redriven int `json:"redriven"`
	Left     int `json:"left"`
	Answered int `json:"answered"`
	Failed   int `json:"failed"`
	// Failures names the dead letters that could not be put back, and why.
	Failures []RedriveFailure `json:"failures,omitempty"`
}

// RedriveFailure is one dead letter that could not be put back.
type RedriveFailure struct {
	Queue     string `json:"queue"`
	MessageID string `json:"message_id"`
	Stream    string `json:"stream,omitempty"`
	ID        string `json:"id,omitempty"`
	Error     string `json:"error"`
}

// SkipInfo says which destinations will not get a skipped effect.
type SkipInfo struct {
	Destinations []string `json:"destinations"`
}

// DropInfo counts the dead letters that were deleted.
type DropInfo struct {
	Dropped int `json:"dropped"`
	// Letters are the first of them.
	Letters []DeadLetter `json:"letters"`
}
