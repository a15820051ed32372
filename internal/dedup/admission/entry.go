package admission

import "github.com/effectively-once/once/internal/record"

// NewEntry returns the pending entry of an attempt at the message, without a number.
func (a *Arrival) NewEntry(attempt *record.Attempt, effects []record.Effect, s record.Stream) record.Pending {
	entry := record.Pending{
		Identity: a.Name(), Principal: a.Principal, Token: a.Token(), Attempt: attempt.ID, Effects: effects, Reply: attempt.Answer(),
		Marks: a.NeedsToken(attempt), Retention: s.RetentionOf(&a.Message),
	}
	if a.Timer != "" {
		entry.Reply = nil
	}
	entry.Fingerprint = entry.Print(a.Fingerprint())
	return entry
}
