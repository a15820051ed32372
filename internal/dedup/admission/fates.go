package admission

import (
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// KeyReuse returns the outcome of a message whose identity was used with other content.
func KeyReuse() record.Outcome {
	return reject(record.ReasonKeyReuse, "the same identity was used for another content")
}

// StaleEpoch returns the outcome of a numbered message with an older epoch than its source has now.
func StaleEpoch() record.Outcome {
	return reject(record.ReasonStaleEpoch, "a newer epoch of its source has spoken")
}

// BeyondLimits returns the outcome of a message for which the group record would exceed its limit
// of names.
func BeyondLimits(what string) record.Outcome {
	return reject(record.ReasonLimit, "its group has as many "+what+" as the limits of its stream allow")
}

// Late returns the outcome of a message whose number was passed.
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

// Ended returns the outcome of a message whose group has a log that has ended.
func Ended() record.Outcome {
	return reject(record.ReasonEnded, "the log of its group has ended")
}

// Gap returns the outcome of held messages whose predecessor, number next, did not arrive in time.
func Gap(next uint64) record.Outcome {
	return reject(record.ReasonGap, fmt.Sprintf("number %d did not come in time", next))
}

// MissingParent returns the outcome of a message whose parent, an entry of its group's log, did not
// arrive in time.
func MissingParent(number uint64) record.Outcome {
	return reject(record.ReasonGap, fmt.Sprintf("entry %d, which it answers, did not come in time", number))
}

func reject(reason record.Reason, detail string) record.Outcome {
	return record.Outcome{Kind: record.Rejected, Reason: reason, Detail: detail}
}
