package stream

import (
	"maps"
	"slices"
	"strconv"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// takes finds what the target would find wrong with a message when it reads it off its queue. It must be found here: there it would be too late to refuse the effect,
// which is settled by then.
func takes(m *record.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if wire.Reserved(name) {
			return &record.InvalidError{Field: "header " + strconv.Quote(name), Rule: "has a name that the contract of queues keeps for itself: once- in front"}
		}
	}
	return nil
}
