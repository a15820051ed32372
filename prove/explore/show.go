package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// nameOf returns the scenario's name of a message.
func nameOf(m record.Message) string { return m.Headers[nameHeader] }

func namesOf(messages []record.Message) []string {
	out := make([]string, len(messages))
	for i, m := range messages {
		out[i] = nameOf(m)
	}
	return out
}

// nameIn returns the name of the message in a line of a group's state.
func nameIn(line string) string {
	name, _, _ := strings.Cut(line, " by ")
	return name
}

// names returns groups and tokens as text.
func (w *world) names(groups []record.GroupKey, tokens []record.TokenKey) string {
	var out []string
	for _, g := range groups {
		if g.Stream == record.SourcesStream {
			g.Group = "of a source"
		}
		out = append(out, "group "+g.Group)
	}
	for _, t := range tokens {
		out = append(out, "token of "+w.tokens[t])
	}
	return " " + strings.Join(out, ", ")
}

func (w *world) tokenNames(tokens []record.Token) string {
	var out []string
	for _, t := range tokens {
		out = append(out, w.tokens[t.Key])
	}
	return " " + strings.Join(out, ", ")
}

// show returns loaded records as text.
func show(groups []record.Group, tokens []record.Token) string {
	var out []string
	for _, g := range groups {
		out = append(out, "group "+showGroup(g))
	}
	for _, t := range tokens {
		out = append(out, "token "+t.State.String())
	}
	return strings.Join(out, "; ")
}

func showGroup(g record.Group) string {
	if g.Version == 0 {
		return "is not there"
	}
	var source record.SourceEpoch
	if g.Key.Stream == record.SourcesStream && source.Read(&g) == nil {
		return fmt.Sprintf("version %d, epoch %d", g.Version, source.Epoch)
	}
	out := []string{fmt.Sprintf("version %d", g.Version)}
	if g.Key.Stream == record.PoolsStream {
		return out[0]
	}
	if state := lines(g.State); len(state) > 0 {
		out = append(out, "applied "+strings.Join(state, ", "))
	}
	for _, p := range g.Pending {
		word := "pending"
		if p.Kept() {
			word = "done"
		}
		out = append(out, fmt.Sprintf("%s %d of %s", word, p.Number, p.Attempt))
	}
	for name, s := range g.Sources {
		var text strings.Builder
		_, _ = fmt.Fprintf(&text, "%s next %d", name, s.Next)
		for _, r := range s.Held {
			_, _ = fmt.Fprintf(&text, ", held %d-%d", r.First, r.Last)
		}
		out = append(out, text.String())
	}
	for name, t := range g.Timers {
		out = append(out, fmt.Sprintf("timer %s %d", name, t.Number))
	}
	slices.Sort(out[1:])
	return strings.Join(out, ", ")
}

// showKept names the entries that a clear replaces by their kept form.
func showKept(done []record.Pending) string {
	var text strings.Builder
	for _, p := range done {
		_, _ = fmt.Fprintf(&text, ", keeps %d until %s", p.Number, p.DoneUntil.Format(time.DateTime))
	}
	return text.String()
}

func (w *world) showCommit(c record.Commit) string {
	var text strings.Builder
	text.WriteString(showGroup(c.Next))
	for _, h := range c.Hold {
		text.WriteString(", holds " + nameOf(h.Message))
	}
	for _, k := range c.Unhold {
		_, _ = fmt.Fprintf(&text, ", no longer holds %d", k.Sequence)
	}
	if len(c.Done) > 0 {
		text.WriteString(", done" + w.tokenNames(c.Done))
	}
	return text.String()
}

func showHeld(held []record.Held) string {
	var out []string
	for _, h := range held {
		out = append(out, nameOf(h.Message))
	}
	return "held: " + strings.Join(out, ", ")
}

func showChunks(chunks []record.Chunk) string {
	if len(chunks) == 0 {
		return "no more chunks"
	}
	return fmt.Sprintf("entries %d to %d", chunks[0].First, chunks[0].Last)
}

func showSent(list []sent) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%q as %s to %s", s.Body, s.Identity, s.To))
	}
	return strings.Join(out, ", ")
}
