package dedup

import (
	"slices"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// An item is one delivery of a batch.
type item struct {
	admission.Arrival
	attempts []string       // IDs of attempts whose commits may have been applied
	plan     *plan          // the last plan that decided the item
	planned  record.Outcome // the outcome in that plan
	fate     record.Outcome // the final outcome, if decided
	decided  bool
	copied   bool // an earlier item of the batch has the same token
	out      *record.Outcome
}

// open reports whether the item's fate is still to be decided.
func (it *item) open() bool { return !it.decided }

// tried reports whether an attempt of this call committed the item, although the answer to the
// commit was lost.
func (it *item) tried(attempt string) bool { return slices.Contains(it.attempts, attempt) }

// settle makes an outcome final.
func (it *item) settle(fate record.Outcome) { it.fate, it.decided = fate, true }

// stops reports whether the item has to be retried before any later message of its group runs.
func (it *item) stops() bool {
	return it.decided && it.fate.Kind == record.Retry && !Waits(it.fate.Err)
}

// A part is the messages of one group in a batch.
type part struct {
	key    record.GroupKey
	stream record.Stream
	items  []*item
	view   record.Group // as loaded, or as committed by this worker
	tokens tokens
	// done are the tokens that commits of this worker have marked since tokens was read.
	done []record.Token
	// named are the done tokens of messages that are committed in the groups that their ids name.
	// The items of other parts with these ids are used for another content.
	named map[record.TokenKey]record.Token
	// marks are the tokens to mark done before any delivery is acknowledged.
	marks []record.Token
	// trigger says that the pending effects in the view are to be published.
	trigger bool
	// numbered says that the part has messages admitted by sequence. Their pending entries have no
	// token to fall back on, so they must be finished before the delivery is acknowledged.
	numbered bool
	doubts   []*plan                    // commits whose result is unknown
	alone    bool                       // commit each message alone, to find one that is too large
	refused  map[record.TokenKey]string // details of messages that are too large to commit
	// unremembered says that the record has no room for refusals.
	unremembered bool
	pace         pace // of the calls of a batch handler
	way
	sweeping bool
	turn     bool  // the part has the turn of its group, see [admission.Running]
	err      error // nil if the part is settled
	first    plan  // memory of the first plan
	planned  bool  // the first plan is in use
}

// newPlan returns memory for a plan.
func (p *part) newPlan() *plan {
	if p.planned {
		return &plan{}
	}
	p.planned = true
	return &p.first
}

func newPart(key record.GroupKey, s record.Stream) *part {
	return &part{key: key, stream: s}
}

// tooLarge returns the detail of a message that is too large to commit. It reads the token only if
// there is such a message in the part, so that a numbered message needs no hash.
func (p *part) tooLarge(it *item) (why string, ok bool) {
	for key, why := range p.refused {
		if key == it.Token() {
			return why, true
		}
	}
	return "", false
}

// accept makes the decisions of a plan final.
func (p *part) accept(pl *plan) {
	for _, it := range p.items {
		if it.plan == pl {
			it.settle(it.planned)
		}
	}
}
