package admin

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Stats counts what is under way in a system.
type Stats struct {
	Streams []StreamStats `json:"streams"`
	Queues  []QueueStats  `json:"queues"`
	// Pending, Held, Issued and Leased are the sums over the streams.
	Pending int `json:"pending"`
	Held    int `json:"held"`
	Issued  int `json:"issued"`
	Leased  int `json:"leased"`
	// Queued counts messages on all queues but the dead-letter queues, those in flight included. Delayed ones are counted apart: messages that
	// are too far ahead of their predecessors. Triggers that come later, to see whether anything was left, are no work, and not in it, though the queue of triggers has them among its own.
	Queued  int `json:"queued"`
	Delayed int `json:"delayed"`
	// DeadLetters counts messages on the dead-letter queues.
	DeadLetters int `json:"dead_letters"`
	// Idle is true when nothing is pending, held, leased or queued, nor any message delayed. Issued tokens, delayed triggers and dead letters do not count.
	Idle bool `json:"idle"`
}

// StreamStats counts what is under way in one stream.
type StreamStats struct {
	Stream string `json:"stream"`
	Groups int    `json:"groups"`
	// Pending counts committed messages that are not published and cleared yet.
	Pending int `json:"pending"`
	Held    int `json:"held"`
	// Issued, Leased and Done count tokens by their state.
	Issued int `json:"issued"`
	Leased int `json:"leased"`
	Done   int `json:"done"`
}

// QueueStats counts the messages of one queue.
type QueueStats struct {
	Queue string `json:"queue"`
	// Visible messages can be received now, InFlight ones are being worked on, Delayed ones wait for their time.
	Visible    int  `json:"visible"`
	InFlight   int  `json:"in_flight"`
	Delayed    int  `json:"delayed"`
	DeadLetter bool `json:"dead_letter,omitempty"`
}

// Depth counts all messages of the queue.
func (q QueueStats) Depth() int { return q.Visible + q.InFlight + q.Delayed }

// precaution is the queue whose delayed messages wait for nothing that is still to be done: triggers for what a process may have committed and died, or may yet commit.
const precaution = "publish"

// Total fills in the sums, and Idle, from Streams and Queues.
func (s Stats) Total() Stats {
	s.Pending, s.Held, s.Issued, s.Leased, s.Queued, s.Delayed, s.DeadLetters = 0, 0, 0, 0, 0, 0, 0
	for _, x := range s.Streams {
		s.Pending += x.Pending
		s.Held += x.Held
		s.Issued += x.Issued
		s.Leased += x.Leased
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
	// LastNumber is the last number given to an effect.
	LastNumber uint64       `json:"last_number"`
	Pending    []Pending    `json:"pending"`
	Held       int          `json:"held"`
	Sources    []SourceInfo `json:"sources"`
	// State is the handler's where it is JSON, StateBase64 where it is anything else.
	State       json.RawMessage `json:"state,omitempty"`
	StateBase64 []byte          `json:"state_base64,omitempty"`
	Expires     *time.Time      `json:"expires,omitempty"`
}

// SetState puts a handler's state into the field that can show it.
func (g *GroupInfo) SetState(state []byte) {
	g.State, g.StateBase64 = nil, nil
	if len(state) > 0 && utf8.Valid(state) && json.Valid(state) {
		g.State = state
		return
	}
	g.StateBase64 = state
}

// Pending is one committed message that is not published and cleared yet.
type Pending struct {
	Number  uint64 `json:"number"`
	ID      string `json:"id"`
	Attempt string `json:"attempt"`
	// Effects is how many messages and blobs it publishes, Sent how many deliveries of them are known to have been made.
	Effects int `json:"effects"`
	Sent    int `json:"sent"`
}

// SourceInfo is what a group remembers of one numbered sender.
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

// MarshalJSON writes [first, last].
func (r Range) MarshalJSON() ([]byte, error) { return json.Marshal([2]uint64{r.First, r.Last}) }

// UnmarshalJSON reads [first, last].
func (r *Range) UnmarshalJSON(data []byte) error {
	var pair [2]uint64
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	r.First, r.Last = pair[0], pair[1]
	return nil
}

// MessageInfo is what is known of one message.
type MessageInfo struct {
	Stream string `json:"stream"`
	ID     string `json:"id"`
	Group  string `json:"group,omitempty"`
	// Status is accepted, held, committed, done, rejected or deleted.
	Status string `json:"status"`
	// Reason tells why it was rejected.
	Reason  string     `json:"reason,omitempty"`
	Reply   *ReplyInfo `json:"reply,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
}

// ReplyInfo is the answer that is kept with a message.
type ReplyInfo struct {
	Status int                 `json:"status"`
	Header map[string][]string `json:"header,omitempty"`
	// Body is the answer's body where it is JSON, BodyText where it is other text, BodyBase64 else.
	Body       json.RawMessage `json:"body,omitempty"`
	BodyText   string          `json:"body_text,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

// SetBody puts a reply's body into the field that can show it.
func (r *ReplyInfo) SetBody(body []byte) {
	r.Body, r.BodyText, r.BodyBase64 = nil, "", nil
	switch {
	case len(body) == 0:
	case !utf8.Valid(body):
		r.BodyBase64 = body
	case json.Valid(body):
		r.Body = body
	default:
		r.BodyText = string(body)
	}
}

// SweepInfo counts what a sweep found and did.
type SweepInfo struct {
	// Groups were looked at; Finished had something left over that is done now; Failed could not be finished.
	Groups   int `json:"groups"`
	Finished int `json:"finished"`
	Failed   int `json:"failed"`
	// Expired records and stray staged Blobs were deleted.
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
	Group  string `json:"group,omitempty"`
	Source string `json:"source,omitempty"`
	// Epoch and Sequence are given with Source.
	Epoch    uint64 `json:"epoch,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	// Destination is set where an effect was refused, by its destination.
	Destination string    `json:"destination,omitempty"`
	Sent        time.Time `json:"sent"`
}

// RedriveInfo counts what a redrive put back.
type RedriveInfo struct {
	// Redriven dead letters were put back; Left did not match or were over the limit; Failed could not be put back and stay.
	Redriven int `json:"redriven"`
	Left     int `json:"left"`
	Failed   int `json:"failed"`
}
