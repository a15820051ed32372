package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/system/deployed"
)

// contentShown is how many bytes of a body are shown without --full.
const contentShown = 4 << 10

func (a *app) showDeadLetters(ctx context.Context, s admin.Admin, o showing) error {
	o.deadLetters.Limit = o.limit
	switch {
	case o.full:
		o.deadLetters.Content = -1
	case o.deadLetters.ID != "":
		o.deadLetters.Content = contentShown
	}
	letters, err := s.DeadLetters(ctx, o.deadLetters)
	if err != nil {
		return err
	}
	if len(letters) == 0 && o.deadLetters.ID != "" {
		return noLetter(s, o.deadLetters.ID)
	}
	if o.json {
		return printJSON(a.out, append([]admin.DeadLetter{}, letters...))
	}
	if len(letters) == 0 {
		_, err := fmt.Fprintln(a.out, "no dead letters")
		return err
	}
	if o.deadLetters.Content == 0 {
		return table(a.out, letterRows(letters))
	}
	for i := range letters {
		if i > 0 {
			_, _ = fmt.Fprintln(a.out) // the next write returns the error
		}
		if err := a.showLetter(&letters[i]); err != nil {
			return err
		}
	}
	return nil
}

// warnOfLetters says which dead-letter queues are about to drop dead letters.
func (a *app) warnOfLetters(queues []admin.QueueStats) (err error) {
	for _, q := range queues {
		if q.Expiring > 0 {
			_, err = fmt.Fprintf(a.out, "warning: %s drops %s within a day, by dead_letters.retain\n", q.Queue, plural(q.Expiring, "dead letter"))
		}
		if q.NearlyFull() {
			_, err = fmt.Fprintf(a.out, "warning: %s has %d of at most %d dead letters; beyond dead_letters.most it drops the oldest\n", q.Queue, q.Depth(), q.Most)
		}
	}
	return err
}

// noLetter returns the error for an id that no dead letter has.
func noLetter(s admin.Admin, id string) error {
	err := fmt.Errorf("dead letter %q: %w", id, admin.ErrNotFound)
	if _, onStack := s.(*deployed.System); onStack {
		return fmt.Errorf("%w; of each group in a .fifo queue only the first ten dead letters can be received: if others may stand before it, put them back or drop them first", err)
	}
	return fmt.Errorf("%w; a message that is still retried is not a dead letter yet: see once show STREAM --id ID", err)
}

func letterRows(letters []admin.DeadLetter) [][]string {
	rows := [][]string{{"QUEUE", "REASON", "STREAM", "ID", "GROUP", "DESTINATION", "COUNT", "SENT", "DETAIL"}}
	for i := range letters {
		d := &letters[i]
		rows = append(rows, []string{d.Queue, d.Reason, dash(d.Stream), selector(d), dash(d.Group), dash(d.Destination), fmt.Sprint(max(1, d.Count)), stamp(&d.Sent), dash(d.Detail)})
	}
	return rows
}

// selector returns the id with which --id selects the letter: the key that its sender gave it, if
// that is known.
func selector(d *admin.DeadLetter) string {
	if d.Key != "" {
		return d.Key
	}
	if name := d.Name(); name != "" {
		return name
	}
	return d.MessageID
}

// showLetter prints one dead letter with its headers and its body.
func (a *app) showLetter(d *admin.DeadLetter) error {
	pairs := []string{
		"dead letter", selector(d), "queue", d.Queue, "message id", d.MessageID, "reason", d.Reason, "detail", d.Detail, "stream", d.Stream, "group", d.Group,
		"destination", d.Destination, "sent", stamp(&d.Sent),
	}
	if d.Count > 1 {
		pairs = append(pairs, "refused", fmt.Sprintf("%d times, first at %s", d.Count, stamp(d.First)))
	}
	if d.Source != "" {
		pairs = append(pairs, "source", d.Source, "epoch", fmt.Sprint(d.Epoch), "sequence", fmt.Sprint(d.Sequence))
	}
	if d.Key != "" {
		pairs = append(pairs, "id of a redrive", d.ID)
	}
	if d.Session != "" {
		pairs = append(pairs, "session", d.Session, "number", fmt.Sprint(d.Number))
	}
	c := d.Content
	if c == nil {
		return lines(a.out, pairs...)
	}
	pairs = append(pairs, "content type", c.ContentType)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		pairs = append(pairs, "header "+name, c.Headers[name])
	}
	size := plural(c.Bytes, "byte")
	if c.Truncated {
		size = fmt.Sprintf("the first %d of %s; --full shows all", contentShown, size)
	}
	if err := lines(a.out, append(pairs, "body", size)...); err != nil {
		return err
	}
	text := string(c.JSON)
	if text == "" {
		text = shown(c.Body)
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.out, "\n%s\n", safeLines(text))
	return err
}

// printFailures names the dead letters that could not be put back.
func (a *app) printFailures(failures []admin.RedriveFailure) error {
	if len(failures) == 0 {
		return nil
	}
	rows := [][]string{{"", ""}, {"NOT PUT BACK", "QUEUE", "STREAM", "ERROR"}}
	for _, f := range failures {
		id := f.ID
		if id == "" {
			id = f.MessageID
		}
		rows = append(rows, []string{id, f.Queue, dash(f.Stream), f.Error})
	}
	return errors.Join(table(a.out, rows), a.note("to see one: once show --dead-letters --id ID; to delete it: once drop --id ID\n"))
}

// note prints a hint for people, on standard error.
func (a *app) note(text string) error {
	_, err := fmt.Fprint(a.err, text)
	return err
}
