package room

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
)

// check compares the regions after the faults have ended.
func (w *world) check() {
	for _, p := range w.regions {
		w.checkLog(p.reader)
		w.checkReadAgain(p)
	}
	first := shown(w.regions[0].reader.view)
	for _, p := range w.regions[1:] {
		if other := shown(p.reader.view); !slices.Equal(first, other) {
			i := 0
			for i < min(len(first), len(other)) && first[i] == other[i] {
				i++
			}
			w.violate("%s and %s show another order from row %d on", names[0], p.reader.region, i+1)
		}
	}
	if deepest := slices.Max(w.outboxes); deepest > w.outbox {
		w.violate("an outbox kept %d lines, more than %d", deepest, w.outbox)
	}
	for _, p := range w.regions {
		w.checkDeadLetters(p)
	}
	sleep(time.Second) // for the late copies of requests
}

// checkLog checks what one region has read: each line once, those of a person in order, answers
// behind the lines that they answer.
func (w *world) checkLog(r *reader) {
	texts, ids := map[string]bool{}, map[string]bool{}
	type count struct{ epoch, number uint64 }
	last := map[string]count{}
	for _, h := range r.heard {
		if texts[h.Text] {
			w.violate("%s: %q is there twice", r.region, h.Text)
		}
		texts[h.Text], ids[h.ID] = true, true
		now, was := count{h.Epoch, h.Number}, last[h.By]
		if now.epoch < was.epoch || now.epoch == was.epoch && now.number != was.number+1 || now.epoch > was.epoch && now.number != 1 {
			w.violate("%s: line %d/%d of %s comes after %d/%d", r.region, now.epoch, now.number, h.By, was.epoch, was.number)
		}
		last[h.By] = now
		for _, parent := range h.Answers {
			if !ids[parent] {
				w.violate("%s: %s is in the log before %s, which it answers", r.region, h.ID, parent)
			}
		}
	}
	for text := range w.sent {
		if !texts[text] {
			w.violate("%s: %q is missing", r.region, text)
		}
	}
}

// checkDeadLetters checks that a region has no dead letters, except for copies of lines that are in
// its log: if a copy is received after the first line of a person's next device, nobody knows any
// more that its number was processed.
func (w *world) checkDeadLetters(p *place) {
	heard := map[string]bool{}
	for _, h := range p.reader.heard {
		heard[h.Text] = true
	}
	letters, err := p.server.dead.Receive(w.t.Context(), w.lines, time.Minute, 0)
	if err != nil {
		w.violate("%s: read dead letters: %v", p.reader.region, err)
	}
	for _, d := range letters {
		var s said
		stale := strings.HasPrefix(d.Attributes["once-reason"], string(record.ReasonStaleEpoch)+":")
		if err := json.Unmarshal([]byte(d.Body), &s); err != nil || !stale || !heard[s.Text] {
			w.violate("%s: a dead letter %v: %s", p.reader.region, d.Attributes["once-reason"], d.Body)
		}
	}
}

// checkReadAgain reads the log from its first entry: no entry that was read has moved, and nothing
// is behind it.
func (w *world) checkReadAgain(p *place) {
	ctx := w.t.Context()
	tail := w.client("checker", p.reader.region, "again", time.Millisecond).Tail(Stream, Group, client.TailOptions{NoFollow: true})
	for i := 0; ; i++ {
		e, err := tail.Next(ctx)
		if errors.Is(err, client.ErrEnd) {
			if i < len(p.reader.heard) {
				w.violate("%s: %d entries were read, and %d are there", p.reader.region, len(p.reader.heard), i)
			}
			return
		}
		if err != nil {
			w.violate("%s: read again: %v", p.reader.region, err)
			return
		}
		if i >= len(p.reader.heard) {
			w.violate("%s: entry %d is one too many: %s", p.reader.region, e.Number, e.Body)
			continue
		}
		if was := p.reader.heard[i].Entry; was.Offset != e.Offset || was.ID != e.ID || !bytes.Equal(was.Body, e.Body) {
			w.violate("%s: entry %d was %s, and is %s", p.reader.region, i+1, was.ID, e.ID)
		}
	}
}

// shown returns the lines of a screen from the top.
func shown(v *View) []string {
	rows := v.Lines()
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = row.ID
	}
	return out
}
