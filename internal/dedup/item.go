package dedup

import (
	"errors"

	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/record"
)

// An item is one delivery of a batch.
type item struct {
	admission.Arrival
	attempts []string       // at it, of commits that may have landed
	plan     *plan          // the last one that decided it
	planned  record.Outcome // what it decided
	fate     record.Outcome // what is certain
	out      *record.Outcome
}

// open reports whether the item's fate is still to be decided.
func (it *item) open() bool { return it.fate.Kind == record.Retry && it.fate.Err == nil }

// stops reports whether the item has to be delivered again, before anything that follows it.
func (it *item) stops() bool {
	return it.fate.Kind == record.Retry && it.fate.Err != nil && !errors.Is(it.fate.Err, ErrBounds)
}

// A part is what a batch has of one group.
type part struct {
	key    record.GroupKey
	stream record.Stream
	items  []*item
	view   record.Group // as loaded, or as this worker's own commit left it
	tokens map[record.TokenKey]record.Token
	// marks are the tokens to mark done before anything is acknowledged.
	marks []record.Token
	// trigger says that what is pending in the view is to be published.
	trigger  bool
	numbered bool                       // deliveries are settled by numbers: what is pending, with effects or without, is to be finished before they are acknowledged
	doubts   []*plan                    // commits whose answer was lost
	alone    bool                       // run one message in a commit, to find the one that makes it too large
	refused  map[record.TokenKey]string // messages that do, and why
	early    bool                       // trigger before the commit too
	sweeping bool
	err      error // nil when the part is settled
}

func newPart(key record.GroupKey, s record.Stream) *part {
	return &part{key: key, stream: s}
}

// accept takes over what a plan decided.
func (p *part) accept(pl *plan) {
	for _, it := range p.items {
		if it.plan == pl {
			it.fate = it.planned
		}
	}
}
