package admission

import (
	"context"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// A Handover puts held messages that did not go through on the queues that they belong on, before the commit that releases them. A dead letter is written once, however often that
// commit has to be planned anew; a message that goes back to its queue goes there for each plan, because whoever received it may have acknowledged it for being held still. The
// zero value is ready; not for concurrent use.
type Handover struct{ given map[record.HeldKey]bool }

// Do dead-letters refused messages that are not dead letters already, and returns failing ones likewise. It has to succeed before the commit that forgets them.
func (h *Handover) Do(ctx context.Context, q record.Queues, refused []record.Refused, failing []record.Message) error {
	refused = slices.DeleteFunc(slices.Clone(refused), func(r record.Refused) bool { return h.given[heldKey(&r.Message)] })
	if len(refused) > 0 {
		if err := q.DeadLetter(ctx, refused); err != nil {
			return err
		}
	}
	for i := range refused {
		h.note(&refused[i].Message)
	}
	failing = slices.DeleteFunc(slices.Clone(failing), func(m record.Message) bool { return h.given[heldKey(&m)] })
	if len(failing) == 0 {
		return nil
	}
	return q.Return(ctx, failing)
}

func (h *Handover) note(m *record.Message) {
	if h.given == nil {
		h.given = map[record.HeldKey]bool{}
	}
	h.given[heldKey(m)] = true
}

func heldKey(m *record.Message) record.HeldKey {
	return record.HeldKey{Group: m.GroupKey(), Source: m.SourceKey(), Epoch: m.Epoch, Sequence: m.Sequence}
}
