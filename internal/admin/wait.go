package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A WaitKind says for what a message or a group waits.
type WaitKind string

// The kinds of waits.
const (
	// WaitRetry: a try to process the message failed, most often its handler. It is retried.
	WaitRetry WaitKind = "retry"
	// WaitDestination: an effect was not sent yet, or its destination did not take it.
	WaitDestination WaitKind = "destination"
	// WaitNumber: a number of a source did not arrive yet.
	WaitNumber WaitKind = "number"
	// WaitParent: an entry of the group's log that a message answers is not there yet.
	WaitParent WaitKind = "parent"
	// WaitQueue: the message is in a queue, and no failed try of it is known.
	WaitQueue WaitKind = "queue"
	// WaitTime: the message is delayed and not due.
	WaitTime WaitKind = "time"
)

// A Wait is a reason why a message or a group does not go on. The tries, their error and the time
// of the next one are known to the process that made them: they are missing if no process runs on a
// data folder, and of a deployed system.
type Wait struct {
	For WaitKind `json:"for"`
	// ID is that of the message that waits, or that made the effect; it is empty for a number.
	ID string `json:"id,omitempty"`
	// Destination and Number name an effect. Without a destination, Number is that of an entry.
	Destination string `json:"destination,omitempty"`
	Number      uint64 `json:"number,omitempty"`
	// Source, Epoch and Sequence name the missing number; Since is when it was first missed, or when
	// the message that waits for a parent was accepted.
	Principal string     `json:"principal,omitempty"`
	Source    string     `json:"source,omitempty"`
	Epoch     uint64     `json:"epoch,omitempty"`
	Sequence  uint64     `json:"sequence,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	// Tries counts the tries so far. Error is of the last one, at Last, and Status is the status
	// with which a webhook answered it. Next is when the next one, or a delayed message, is due.
	Tries  int    `json:"tries,omitempty"`
	Error  string `json:"error,omitempty"`
	Status int    `json:"status,omitempty"`
	// Reason is state-unreadable if the handler can't read the state of the group.
	Reason record.Reason `json:"reason,omitempty"`
	Last   *time.Time    `json:"last,omitempty"`
	Next   *time.Time    `json:"next,omitempty"`
	// Queue is the queue in which the message is.
	Queue string `json:"queue,omitempty"`
}

// tried adds a registered failure to a wait.
func (w Wait) tried(x *system.Wait) Wait {
	w.Tries, w.Error, w.Reason, w.Status = x.Try, x.Error, x.Reason, x.Status
	if !x.Last.IsZero() {
		w.Last = &x.Last
	}
	if !x.Next.IsZero() {
		w.Next = &x.Next
	}
	return w
}

// waits returns for what a group waits: missing numbers, handlers that failed, and for each
// destination the first effect that was not sent. failing is what the process that runs the system
// has registered, nil if there is none.
func waits(g *record.Group, failing []system.Wait) []Wait {
	var out []Wait
	for _, key := range slices.Sorted(maps.Keys(g.Sources)) {
		if w, missing := waitForNumber(key, g.Sources[key]); missing {
			out = append(out, w)
		}
	}
	for i := range failing {
		switch x := &failing[i]; {
		case x.Destination != "":
		case len(x.Parents) > 0:
			out = append(out, waitsForParent(g, &record.Message{ID: x.ID, Parents: x.Parents}, x.Since)...)
		default:
			out = append(out, Wait{For: WaitRetry, ID: x.ID}.tried(x))
		}
	}
	return append(out, waitsForDestinations(g, failing, 0)...)
}

// waitsForParent returns the first entry that a message answers and that is not in the log, if
// there is one.
func waitsForParent(g *record.Group, m *record.Message, since time.Time) []Wait {
	n := g.MissingParent(m)
	if n == 0 {
		return nil
	}
	w := Wait{For: WaitParent, ID: m.Identity(), Number: n}
	if !since.IsZero() {
		w.Since = &since
	}
	return []Wait{w}
}

// waitForNumber returns for which number a source waits, if one is missing.
func waitForNumber(key string, src record.Source) (Wait, bool) {
	if len(src.Held) == 0 || src.Held.Contains(src.Next) {
		return Wait{}, false // if the next number is held, it waits for another source
	}
	info := sourceInfo(key, src)
	return Wait{For: WaitNumber, Principal: info.Principal, Source: info.Source, Epoch: info.Epoch, Sequence: info.Next, Since: info.GapSince}, true
}

// waitsForDestinations returns the first effect that was not sent, of each destination. If until is
// not 0, only the destinations count to which the entry of that number has something to send.
func waitsForDestinations(g *record.Group, failing []system.Wait, until uint64) []Wait {
	first := map[string]Wait{}
	wanted := map[string]bool{}
	for i := range g.Pending {
		p := &g.Pending[i]
		if until != 0 && p.Number > until {
			break
		}
		for n, f := range p.Effects {
			for _, to := range f.To {
				if slices.Contains(p.Sent, record.Sent{Effect: n, To: to}) {
					continue
				}
				wanted[to] = wanted[to] || until == 0 || p.Number == until
				if _, known := first[to]; !known {
					first[to] = Wait{For: WaitDestination, ID: p.Identity, Destination: to, Number: p.Number + uint64(n)}
				}
			}
		}
	}
	var out []Wait
	for _, to := range slices.Sorted(maps.Keys(first)) {
		if !wanted[to] {
			continue
		}
		w := first[to]
		for i := range failing {
			if x := &failing[i]; x.Destination == to && x.Number == w.Number {
				w = w.tried(x)
			}
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b Wait) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// MessageOf describes a message by its state. It reads the group of a message that waits. ordered
// says that the stream processes the messages of a group one after the other, and failing is what
// the process that runs the system has registered for a group. A delayed message is not due at now.
func MessageOf(ctx context.Context, store record.Store, m record.Message, state admission.State, ordered bool, now time.Time, failing func(record.GroupKey) []system.Wait) (MessageInfo, error) {
	info := describe(m, state)
	w := waiter{message: m, ordered: ordered}
	key := record.GroupKey{Stream: m.Stream, Group: state.Group}
	switch state.Status {
	case admission.StatusAccepted:
		w.failing = failing(key)
		info.Waiting = w.accepted()
		if due := state.Token.Expires.Add(-record.IssuedRetention); len(info.Waiting) == 0 && state.Token.State == record.Issued && due.After(now) {
			info.Waiting = []Wait{{For: WaitTime, ID: m.Identity(), Next: &due}}
		}
		parents, since := w.parents()
		if len(parents) == 0 {
			break
		}
		groups, _, err := store.Load(ctx, []record.GroupKey{key}, nil)
		if err != nil {
			return MessageInfo{}, err
		}
		info.Waiting = append(info.Waiting, waitsForParent(&groups[0], &record.Message{ID: m.ID, Parents: parents}, since)...)
	case admission.StatusHeld, admission.StatusCommitted:
		groups, _, err := store.Load(ctx, []record.GroupKey{key}, nil)
		if err != nil {
			return MessageInfo{}, err
		}
		w.group, w.failing = &groups[0], failing(key)
		if state.Status == admission.StatusCommitted {
			info.Waiting = w.committed()
			break
		}
		if info.Waiting, err = w.held(ctx, store); err != nil {
			return MessageInfo{}, err
		}
	default: // it waits for nothing
	}
	return info, nil
}

// describe returns the information that needs no further record.
func describe(m record.Message, state admission.State) MessageInfo {
	info := MessageInfo{
		Stream: m.Stream, ID: m.ID, Hash: m.Hash(), Group: state.Group, Status: string(state.Status), Reason: string(state.Reason), Detail: state.Detail,
	}
	if r := state.Reply; r != nil {
		info.Reply = &ReplyInfo{Status: r.Status, Header: r.Header}
		info.Reply.SetBody(r.Body)
	}
	if !state.Token.Expires.IsZero() {
		info.Expires = &state.Token.Expires
	}
	return info
}

// A waiter finds for what one message waits.
type waiter struct {
	message record.Message
	group   *record.Group
	failing []system.Wait
	ordered bool
}

// accepted returns the failure of the message itself, and in an ordered group the failures of
// others, which may be before it.
func (w *waiter) accepted() []Wait {
	var own, others []Wait
	for i := range w.failing {
		x := &w.failing[i]
		switch found := (Wait{For: WaitRetry, ID: x.ID}).tried(x); {
		case x.Destination != "" || len(x.Parents) > 0: // others pass a message that waits for its parents
		case x.ID == w.message.Identity():
			own = append(own, found)
		case w.ordered:
			others = append(others, found)
		}
	}
	return append(own, others...)
}

// parents returns the entries for which the message waits, and since when.
func (w *waiter) parents() (parents []uint64, since time.Time) {
	for i := range w.failing {
		if x := &w.failing[i]; x.ID == w.message.Identity() {
			return x.Parents, x.Since
		}
	}
	return nil, time.Time{}
}

// committed returns the destinations that have not taken the message's effects.
func (w *waiter) committed() []Wait {
	for i := range w.group.Pending {
		if p := &w.group.Pending[i]; p.Identity == w.message.Identity() && p.Principal == w.message.Principal {
			return waitsForDestinations(w.group, w.failing, p.Number)
		}
	}
	return nil
}

// held returns the missing number of the message's source, or what else the message waits for.
func (w *waiter) held(ctx context.Context, store record.Store) ([]Wait, error) {
	m := w.message
	if m.Source == "" {
		m.Source, m.Epoch, m.Sequence, _ = record.ParseNumber(m.ID)
	}
	if missing, ok := waitForNumber(m.SourceKey(), w.group.Sources[m.SourceKey()]); ok {
		return []Wait{missing}, nil
	}
	held, err := store.Held(ctx, record.HeldKey{Group: w.group.Key, Source: m.SourceKey(), Epoch: m.Epoch, Sequence: m.Sequence}, 1)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	return waitsOfHeld(w.group, &held[0]), nil
}

// waitsOfHeld returns the entry of the log that a held message answers, if it is missing, and the
// numbers of other sources on which the message depends.
func waitsOfHeld(g *record.Group, held *record.Held) []Wait {
	m := &held.Message
	out := waitsForParent(g, m, held.At)
	for _, source := range slices.Sorted(maps.Keys(m.DependsOn)) {
		on := record.Message{Principal: m.Principal, Source: source}
		src := g.Sources[on.SourceKey()]
		if n := m.DependsOn[source]; source != m.Source && n > 0 && src.Next <= n {
			out = append(out, Wait{For: WaitNumber, Principal: m.Principal, Source: source, Epoch: src.Epoch, Sequence: max(src.Next, 1), Since: &held.At})
		}
	}
	return out
}

// shownHeld is how many sources of a group are asked for what their next message waits.
const shownHeld = 10

// waitsOfNext returns for what the next messages of sources wait that are held although no number
// of their own source is missing. It reads one message of each such source, of [shownHeld] at most.
func waitsOfNext(ctx context.Context, store record.Store, g *record.Group) ([]Wait, error) {
	var out []Wait
	asked := 0
	for _, key := range slices.Sorted(maps.Keys(g.Sources)) {
		src := g.Sources[key]
		if !src.Held.Contains(src.Next) || asked == shownHeld {
			continue
		}
		asked++
		held, err := store.Held(ctx, record.HeldKey{Group: g.Key, Source: key, Epoch: src.Epoch, Sequence: src.Next}, 1)
		if err != nil {
			return nil, err
		}
		if len(held) > 0 {
			out = append(out, waitsOfHeld(g, &held[0])...)
		}
	}
	return out, nil
}
