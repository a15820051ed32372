package main

import (
	"fmt"
	"strings"

	"github.com/effectively-once/once/internal/admin"
)

// waits returns pairs of names and values, one for each wait.
func waits(list []admin.Wait) []string {
	var pairs []string
	for i := range list {
		pairs = append(pairs, "waits for", waitText(&list[i]))
	}
	return pairs
}

func waitText(w *admin.Wait) string {
	switch w.For {
	case admin.WaitNumber:
		text := fmt.Sprintf("number %d of source %s", w.Sequence, sourceName(w.Principal, w.Source))
		if w.Epoch > 0 {
			text += fmt.Sprintf(", epoch %d", w.Epoch)
		}
		if w.Since != nil {
			text += ", missing since " + stamp(w.Since)
		}
		return text
	case admin.WaitDestination:
		return fmt.Sprintf("destination %s to take effect %d, of message %s%s", w.Destination, w.Number, w.ID, tries(w))
	case admin.WaitQueue:
		if w.Tries == 0 {
			return fmt.Sprintf("its first try; it is in queue %s", w.Queue)
		}
		return fmt.Sprintf("the end of its try, or the next one; it is in queue %s and was tried %s", w.Queue, times(w.Tries))
	case admin.WaitRetry:
	}
	return fmt.Sprintf("the next try of message %s%s", w.ID, tries(w))
}

// tries returns what is known of the tries: how many failed, when the next one is, and the error.
func tries(w *admin.Wait) string {
	var parts []string
	if w.Tries > 0 {
		parts = append(parts, "failed "+times(w.Tries))
	}
	if w.Last != nil && w.Tries > 0 {
		parts = append(parts, "last at "+stamp(w.Last))
	}
	if w.Next != nil {
		parts = append(parts, "next try at "+stamp(w.Next))
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
	return plural(n, "time")
}

func sourceName(principal, source string) string {
	if principal == "" {
		return source
	}
	return principal + " " + source
}
