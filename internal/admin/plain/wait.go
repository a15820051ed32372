package plain

import (
	"fmt"
	"strings"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
)

// Wait returns the thing for which a message or a group waits. The text may contain names and
// errors of others: escape it.
func Wait(w *admin.Wait) string {
	switch w.For {
	case admin.WaitNumber:
		text := fmt.Sprintf("number %d of source %s", w.Sequence, Source(w.Principal, w.Source))
		if w.Epoch > 0 {
			text += fmt.Sprintf(", epoch %d", w.Epoch)
		}
		if w.Since != nil {
			text += ", missing since " + Stamp(w.Since)
		}
		return text
	case admin.WaitDestination:
		return fmt.Sprintf("destination %s to take effect %d, of message %s%s", w.Destination, w.Number, w.ID, tries(w))
	case admin.WaitParent:
		text := fmt.Sprintf("entry %d of the log, which message %s answers", w.Number, w.ID)
		if w.Since != nil {
			text += ", since " + Stamp(w.Since)
		}
		return text
	case admin.WaitQueue:
		if w.Tries == 0 {
			return fmt.Sprintf("its first try; it is in queue %s", w.Queue)
		}
		return fmt.Sprintf("the end of its try, or the next one; it is in queue %s and was tried %s", w.Queue, times(w.Tries))
	case admin.WaitTime:
		return "its time, " + Stamp(w.Next)
	case admin.WaitRetry:
	}
	if w.Reason != "" {
		return fmt.Sprintf("a handler that can read the state (%s), message %s%s", w.Reason, w.ID, tries(w))
	}
	return fmt.Sprintf("the next try of message %s%s", w.ID, tries(w))
}

// tries returns the known facts of the tries: how many failed, when the next one is, and the error.
func tries(w *admin.Wait) string {
	var parts []string
	if w.Tries > 0 {
		parts = append(parts, "failed "+times(w.Tries))
	}
	if w.Last != nil && w.Tries > 0 {
		parts = append(parts, "last at "+Stamp(w.Last))
	}
	if w.Next != nil {
		parts = append(parts, "next try at "+Stamp(w.Next))
	}
	if w.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", w.Status))
	}
	if len(parts) == 0 {
		return ""
	}
	text := "; " + strings.Join(parts, ", ")
	if w.Error != "" {
		text += ": " + w.Error
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return Plural(n, "time")
}

// Source names the source of numbered messages, with its sender if that is known.
func Source(principal, source string) string {
	if principal == "" {
		return source
	}
	return principal + " " + source
}

// SessionState returns the state of a session in a word or two. A consumer that gives an entry up
// releases its session, so a failed entry of a session that nobody holds needs a person.
func SessionState(s *client.SessionInfo) string {
	switch {
	case s.Retired && !s.Returned:
		return "retiring"
	case s.Retired:
		return "retired"
	case s.Restored:
		return "restored"
	case s.Ended && s.Cursor > s.Last, s.Ended && s.Lag() == 0:
		return "at the end"
	case s.Holder == "" && s.Tries > 0 && s.At > s.Cursor:
		return fmt.Sprint("stopped at ", s.At)
	case s.Holder == "" && s.Lag() == 0:
		return "free"
	case s.Holder == "":
		return "free, behind"
	case s.Lag() == 0:
		return "idle"
	}
	return "behind"
}
