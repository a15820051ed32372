package stream

import (
	"maps"
	"slices"
	"strconv"

	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// takes validates m as the target stream's decoder will. It must fail here: once m is on the
// target's queue, this effect counts as sent and can no longer be refused.
func (s *Sender) takes(m *record.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if err := s.stream.CheckBody(m); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if wire.Reserved(name) {
			return &record.InvalidError{Field: "header " + strconv.Quote(name), Rule: "has a name that the contract of queues keeps for itself: once- in front"}
		}
	}
	return nil
}
