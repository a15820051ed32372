package admission

import (
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// KeyReuse is the fate of a message whose identity stands for another content.
func KeyReuse() record.Outcome {
	return reject(record.ReasonKeyReuse, "the same identity was used for another content")
}

// StaleEpoch is the fate of a numbered message of an older incarnation of its source.
func StaleEpoch() record.Outcome {
	return reject(record.ReasonStaleEpoch, "a newer epoch of its source has spoken")
}

// BeyondLimits is the fate of a message for which the record of its group would have to remember one more name than it may.
func BeyondLimits(what string) record.Outcome {
	return reject(record.ReasonLimit, "its group has as many "+what+" as the limits of its stream allow")
}

// Late is the fate of a message whose number was passed.
func Late(src *record.Source, n uint64) record.Outcome {
	switch skipped, forgotten := src.Passed(n); {
	case skipped:
		return reject(record.ReasonSkipped, "its number was skipped when it did not come in time")
	case forgotten:
		return reject(record.ReasonExpired, "so many gaps ago that it may have been processed or skipped")
	default:
		return record.Outcome{Kind: record.Duplicate}
	}
}

// Gap is the fate of held messages that are not waited with any more: next did not come.
func Gap(next uint64) record.Outcome {
	return reject(record.ReasonGap, fmt.Sprintf("number %d did not come in time", next))
}

func reject(reason record.Reason, detail string) record.Outcome {
	return record.Outcome{Kind: record.Rejected, Reason: reason, Detail: detail}
}
